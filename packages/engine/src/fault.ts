import { AssertionError } from "node:assert";

/**
 * A failure of the environment. `disk_full`: nothing of the failed commit was kept and a later one
 * may succeed. `storage_failed`: what reached the disk is unknown; nothing may be acknowledged any
 * more. `corrupt`: what was read is not what was written. `locked`, `format`: the directory
 * cannot be opened, and the message says what to do. `closed`: the engine is shutting down.
 * `not_leader`: another node leads; nothing of the failed commit was kept, and nothing of it will be.
 * `behind`: the log does not go back to where this node is; the node needs a copy of another node.
 * `unknown`: another node may have kept the commit; this node cannot find out.
 */
export type FaultCode =
  | "disk_full"
  | "storage_failed"
  | "corrupt"
  | "locked"
  | "format"
  | "closed"
  | "not_leader"
  | "behind"
  | "unknown";

export class FaultError extends Error {
  readonly code: FaultCode;

  constructor(code: FaultCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = "FaultError";
    this.code = code;
  }
}

/** True for the operating system's ways of saying that there is no room left. */
export function isDiskFull(error: unknown): boolean {
  const code = (error as { code?: unknown } | undefined)?.code;
  return code === "ENOSPC" || code === "EDQUOT";
}

/** An assertion for hot paths: unlike Node's, it allocates nothing while it holds. */
export function check(holds: boolean, rule: string): asserts holds {
  if (!holds) throw new AssertionError({ message: rule, actual: holds, expected: true });
}
