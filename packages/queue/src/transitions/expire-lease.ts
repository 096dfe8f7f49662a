import { backoffSeconds } from "../backoff.ts";
import { accept, type Outcome, refuse } from "../outcome.ts";
import { isLeased } from "../owner.ts";
import type { Task } from "../task.ts";
import { attemptsAfter, type BackoffAt, type Returned, retryOrBury } from "./retry-or-bury.ts";

/** The error of a task whose attempt took longer than its timeout. */
export const timedOut = "TIMEOUT";

export interface ExpireAt extends BackoffAt {
  /** How long the attempt was under way, by a clock that never steps. */
  readonly ranMs: number;
}

/**
 * Takes a task back from a worker that went silent, or that took longer than the timeout of the task.
 * Whether the lease has run out is for the caller to say, because it measures leases with a clock that
 * never steps; `untilMs` is wall time and only what users are shown.
 */
export function expireLease(task: Task, at: ExpireAt): Outcome<Returned, "not_in_progress"> {
  if (!isLeased(task)) return refuse("not_in_progress");
  const timeoutMs = task.extras?.timeoutMs ?? 0;
  const isTimeout = timeoutMs !== 0 && at.ranMs >= timeoutMs;
  return accept(
    retryOrBury(task, {
      nowMs: at.nowMs,
      seq: at.seq,
      retention: at.retention,
      delaySeconds: backoffSeconds(at.policy, attemptsAfter(task), at.draw),
      error: isTimeout ? timedOut : "LEASE_EXPIRED",
      lastError: isTimeout ? timedOut : "",
      outcome: isTimeout ? "timed_out" : "expired",
    }),
  );
}
