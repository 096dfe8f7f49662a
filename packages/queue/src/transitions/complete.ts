import type { Retention } from "../ended.ts";
import { accept, type Outcome } from "../outcome.ts";
import { checkOwner, isCurrentToken, isSameWorker, type Owner } from "../owner.ts";
import type { ResultBody, Task } from "../task.ts";

/** The result that a worker submits. */
export interface Submission {
  readonly how: "completed" | "failed";
  readonly error: string;
  readonly result: ResultBody;
  readonly resultBytes: number;
}

export interface CompleteAt {
  readonly nowMs: number;
  readonly retention: Retention;
  /** Whether the result is short enough to be stored inside the task. */
  readonly keepsResult: boolean;
}

/**
 * Ends a task with a worker's result. Failing is as final as completing: a worker that wants a retry sends a nack.
 * The error of an earlier attempt is dropped, because it is not the outcome of the task.
 */
export function complete(
  task: Task,
  by: Owner,
  request: Submission,
  at: CompleteAt,
): Outcome<Task, "not_owner" | "not_in_progress"> {
  const owned = checkOwner(task, by);
  if (!owned.ok) return owned;
  return accept({
    ...owned.value,
    error: request.error,
    cancelMs: 0,
    updatedMs: at.nowMs,
    storedBytes: task.storedBytes + request.resultBytes,
    result: at.keepsResult ? request.result : undefined,
    place: {
      in: "done",
      how: request.how,
      workerId: owned.value.place.workerId,
      startedMs: owned.value.place.sinceMs,
      atMs: at.nowMs,
      expiresMs: at.nowMs + at.retention.doneMs,
    },
  });
}

/**
 * Whether this submit repeats the one that finished the task, because the worker did not get the answer. Such a
 * submit is answered with the stored result instead of a refusal.
 */
export function isRepeat(task: Task, by: Owner, how: "completed" | "failed"): boolean {
  const { place } = task;
  if (place.in !== "done" || place.how !== how) return false;
  return isSameWorker(place.workerId, by) && isCurrentToken(task, by);
}
