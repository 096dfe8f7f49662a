/** The error of a command: what is wrong, and what to do next. */
import type { ExitName } from "./exit-codes.ts";

export interface CliErrorOptions {
  readonly exit: ExitName;
  /** What the reader can do about it; a command to run, if there is one. */
  readonly next?: string | undefined;
  /** The status of the HTTP answer, if there was one. */
  readonly status?: number | undefined;
  /** The body of that answer as it came. */
  readonly body?: string | undefined;
  /** The server's own code for its refusal. */
  readonly serverCode?: string | undefined;
  readonly cause?: unknown;
}

export class CliError extends Error {
  readonly exit: ExitName;
  readonly next: string | undefined;
  readonly status: number | undefined;
  readonly body: string | undefined;
  readonly serverCode: string | undefined;

  constructor(message: string, options: CliErrorOptions) {
    super(message, { cause: options.cause });
    this.name = "CliError";
    this.exit = options.exit;
    this.next = options.next;
    this.status = options.status;
    this.body = options.body;
    this.serverCode = options.serverCode;
  }
}

export function usageError(message: string, next?: string): CliError {
  return new CliError(message, { exit: "usage", next });
}
