/**
 * What can go wrong, with a code to branch on. Codes of the server are passed on as they are; those
 * in the table below are made here.
 */
import { errors, type ErrorCode as ServerErrorCode } from "@codeq/protocol";

/** The codes that are made in this process, and whether the same call may succeed later. */
const clientErrors = {
  /** A name, an option or a token has a value that cannot be used. */
  invalid_option: false,
  /** The schema of the task refuses its input. */
  invalid_input: false,
  /** The schema of the task refuses what its handler returned, or what was stored. */
  invalid_output: false,
  /** The codec of the task cannot read what was stored, or cannot write it. */
  codec_failed: false,
  /** There was no answer in time. */
  timeout: true,
  /** The server cannot be reached, or the connection broke. */
  unavailable: true,
  /** The server does not accept the token. */
  unauthenticated: false,
  /** The token does not allow it. */
  permission_denied: false,
  /** What answers is not a codeQ server, or one that speaks another protocol. */
  not_codeq: false,
  /** More calls wait for the server than memory is kept for. */
  too_many_pending: true,
  /** The client or the worker was closed. */
  closed: false,
  /** The task ended without a result. */
  task_failed: false,
  /** Some tasks of several were not taken. */
  some_refused: false,
  /** The task may belong to another worker by now. */
  lease_lost: false,
  /** The task was cancelled; its handler should stop. */
  task_cancelled: false,
  /** The worker is shutting down. */
  worker_closing: false,
  /** A webhook is not from the server, was changed on its way, or is too old. */
  webhook_refused: false,
  /** The handler took longer than the `timeout` of its task. */
  handler_timeout: true,
  /** The attempt took longer than the `executionTimeout` that the producer gave the task. */
  task_timeout: true,
} as const satisfies Record<string, boolean>;

export type ClientErrorCode = keyof typeof clientErrors;

/** Codes of a server that is newer than this client are passed on as well. */
export type ErrorCode = ServerErrorCode | ClientErrorCode | (string & Record<never, never>);

export interface ErrorDetails {
  readonly cause?: unknown;
  readonly ambiguous?: boolean;
  readonly taskId?: string;
}

/** Base of all errors of this package. */
export class CodeqError extends Error {
  override readonly name: string = "CodeqError";
  /** The code of the server's refusal, or one of this client. Branch on this, not on the message. */
  readonly code: ErrorCode;
  /** Whether the same call may succeed later without being changed. */
  readonly retryable: boolean;
  /** Whether the server may have done what was asked although no answer arrived. */
  readonly ambiguous: boolean;
  /** The task that it is about, if it is about one. */
  readonly taskId: string | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.retryable = isRetryable(code);
    this.ambiguous = details.ambiguous ?? false;
    this.taskId = details.taskId;
  }
}

/** What `run.result()` rejects with when the task failed or is a dead letter. */
export class TaskFailedError extends CodeqError {
  override readonly name: string = "TaskFailedError";
  /** What the worker gave as the reason, or `LEASE_EXPIRED`, `MAX_ATTEMPTS`, `TIMEOUT`, `EXPIRED` or `CANCELLED`. */
  readonly reason: string;
  /** How many times a worker was given the task. */
  readonly attempts: number;

  constructor(taskId: string, reason: string, attempts: number) {
    super("task_failed", `task ${taskId} failed: ${reason}`, { taskId });
    this.reason = reason;
    this.attempts = attempts;
  }
}

export function isRetryable(code: ErrorCode): boolean {
  if (Object.hasOwn(errors, code)) return errors[code as ServerErrorCode].retryable;
  return Object.hasOwn(clientErrors, code) && clientErrors[code as ClientErrorCode];
}

/** Whatever was thrown, as an error of ours. */
export function asCodeqError(thrown: unknown, code: ClientErrorCode): CodeqError {
  if (thrown instanceof CodeqError) return thrown;
  return new CodeqError(code, messageOf(thrown), { cause: thrown });
}

/** The text of anything that can be thrown; the texts of several attempts are joined. */
export function messageOf(thrown: unknown): string {
  if (thrown instanceof AggregateError && thrown.message === "") {
    return thrown.errors.map(messageOf).join("; ");
  }
  if (thrown instanceof Error) return thrown.message === "" ? thrown.name : thrown.message;
  return typeof thrown === "object" && thrown !== null ? jsonOf(thrown) : String(thrown);
}

/** A thrown object says more as JSON than as `[object Object]`. */
function jsonOf(thrown: object): string {
  try {
    return JSON.stringify(thrown) ?? String(thrown);
  } catch {
    // It refers to itself, or has a number that JSON does not know.
    return String(thrown);
  }
}
