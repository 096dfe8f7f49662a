import { accept, type Outcome } from "../outcome.ts";
import { checkOwner, isCurrentToken, isSameWorker, type Owner } from "../owner.ts";
import type { Retention } from "../retention.ts";
import type { ResultBody, Task } from "../task.ts";

/** What a worker says of a task that it has finished. */
export interface Submission {
  readonly how: "completed" | "failed";
  readonly error: string;
  readonly result: ResultBody;
  readonly resultBytes: number;
}

export interface CompleteAt {
  readonly nowMs: number;
  readonly retention: Retention;
  /** Whether the result is short enough to travel with the task. */
  readonly keepsResult: boolean;
}

/**
 * A worker's final word on a task. Failing is as final as completing: a worker that wants another
 * try says so with a nack. The error of an earlier attempt is dropped, because it is not what
 * became of the task.
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
 * Whether this is the submit that already finished the task, sent again by a worker that did not
 * see the answer. It is answered with the stored result instead of a refusal.
 */
export function isRepeat(task: Task, by: Owner, how: "completed" | "failed"): boolean {
  const { place } = task;
  if (place.in !== "done" || place.how !== how) return false;
  return isSameWorker(place.workerId, by) && isCurrentToken(task, by);
}
