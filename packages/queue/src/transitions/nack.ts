import { backoffSeconds, ceilingSeconds } from "../backoff.ts";
import { accept, type Outcome } from "../outcome.ts";
import { checkOwner, type Owner } from "../owner.ts";
import type { Task } from "../task.ts";
import {
  attemptsAfter,
  attemptsUsedUp,
  type BackoffAt,
  type Returned,
  retryOrBury,
} from "./retry-or-bury.ts";

export interface NackRequest {
  /** Whole seconds; zero or less leaves the delay to the policy. */
  readonly delaySeconds: number;
  readonly reason: string;
}

/** A worker could not do the task and gives it back for another try. */
export function nack(
  task: Task,
  by: Owner,
  request: NackRequest,
  at: BackoffAt,
): Outcome<Returned, "not_owner" | "not_in_progress"> {
  const owned = checkOwner(task, by);
  if (!owned.ok) return owned;
  return accept(
    retryOrBury(owned.value, {
      nowMs: at.nowMs,
      seq: at.seq,
      retention: at.retention,
      delaySeconds: delayOf(task, request, at),
      error: request.reason === "" ? attemptsUsedUp : request.reason,
      lastError: request.reason,
      outcome: "nacked",
    }),
  );
}

function delayOf(task: Task, request: NackRequest, at: BackoffAt): number {
  if (request.delaySeconds > 0) return Math.min(request.delaySeconds, ceilingSeconds(at.policy));
  return backoffSeconds(at.policy, attemptsAfter(task), at.draw);
}
