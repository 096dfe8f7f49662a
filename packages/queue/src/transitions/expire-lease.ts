import { backoffSeconds } from "../backoff.ts";
import { accept, type Outcome, refuse } from "../outcome.ts";
import { isLeased } from "../owner.ts";
import type { Task } from "../task.ts";
import { attemptsAfter, type BackoffAt, type Returned, retryOrBury } from "./retry-or-bury.ts";

/**
 * Takes a task back from a worker that went silent. Whether the lease has run out is for the caller
 * to say, because it measures leases with a clock that never steps; `untilMs` is wall time and only
 * what users are shown.
 */
export function expireLease(task: Task, at: BackoffAt): Outcome<Returned, "not_in_progress"> {
  if (!isLeased(task)) return refuse("not_in_progress");
  return accept(
    retryOrBury(task, {
      nowMs: at.nowMs,
      seq: at.seq,
      retention: at.retention,
      delaySeconds: backoffSeconds(at.policy, attemptsAfter(task), at.draw),
      error: "LEASE_EXPIRED",
      lastError: "",
      outcome: "expired",
    }),
  );
}
