/** THE table of exit codes. Scripts branch on the numbers, so a row keeps its number forever. */
interface ExitRow {
  readonly code: number;
  readonly about: string;
}

const row = (code: number, about: string): ExitRow => ({ code, about });

export type ExitName =
  | "ok"
  | "failed"
  | "usage"
  | "locked"
  | "data"
  | "port"
  | "unreachable"
  | "denied"
  | "notFound"
  | "taskFailed"
  | "timeout"
  | "refused"
  | "full"
  | "storage"
  | "interrupted";

export const exitCodes: Readonly<Record<ExitName, ExitRow>> = {
  ok: row(0, "Success."),
  failed: row(1, "Another error, or a bug; see the message."),
  usage: row(2, "The command line or the configuration is invalid."),
  locked: row(3, "Another process uses the data directory."),
  data: row(4, "The data cannot be opened, or is damaged."),
  port: row(5, "A port cannot be bound."),
  unreachable: row(6, "The server cannot be reached."),
  denied: row(7, "The token is missing, invalid, or does not allow this."),
  notFound: row(8, "There is no such task, result or key."),
  taskFailed: row(9, "The task ended as failed, or a check of `doctor` failed."),
  timeout: row(10, "No result arrived before the timeout."),
  refused: row(11, "The server refused the request for another reason."),
  full: row(28, "The disk is too full to open the data."),
  storage: row(74, "The server's storage failed while it was running."),
  interrupted: row(130, "Interrupted with Ctrl-C."),
};
