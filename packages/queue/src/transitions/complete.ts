import { accept, type Outcome } from "../outcome.ts";
import { checkOwner, isCurrentToken, isSameWorker, type Owner } from "../owner.ts";
import type { Retention } from "../retention.ts";
import type { Task } from "../task.ts";

/**
 * A worker's final word on a task. Failing is as final as completing: a worker that wants another
 * try says so with a nack. The error of an earlier delivery is dropped, because it is not what
 * became of the task.
 */
export function complete(
  task: Task,
  by: Owner,
  request: { readonly how: "completed" | "failed"; readonly error: string },
  at: { readonly nowMs: number; readonly retention: Retention },
): Outcome<Task, "not_owner" | "not_in_progress"> {
  const owned = checkOwner(task, by);
  if (!owned.ok) return owned;
  return accept({
    ...owned.value,
    error: request.error,
    updatedMs: at.nowMs,
    place: {
      in: "done",
      how: request.how,
      workerId: owned.value.place.workerId,
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
