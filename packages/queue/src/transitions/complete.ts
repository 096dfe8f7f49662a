import { withAttempt } from "../attempts.ts";
import type { Retention } from "../ended.ts";
import { accept, type Outcome } from "../outcome.ts";
import { checkOwner, isCurrentToken, isSameWorker, type LeasedTask, type Owner } from "../owner.ts";
import type { ResultBody, Task } from "../task.ts";

/** The result that a worker submits. */
export interface Submission {
  readonly how: "completed" | "failed";
  readonly error: string;
  /** Where in the worker's code it failed, and its causes; kept of a failed attempt. */
  readonly stack?: string | undefined;
  readonly result: ResultBody;
  readonly resultBytes: number;
  /** How many units of the rate the attempt took; undefined for its cost. */
  readonly used?: number | undefined;
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
    trail: trailOf(owned.value, request, at),
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

/** An attempt that ends in a result follows from the place of the task, but not its stack. */
function trailOf(task: LeasedTask, request: Submission, { nowMs }: CompleteAt): Task["trail"] {
  const { error, stack = "", how } = request;
  if (stack === "" || how === "completed") return task.trail;
  const end = { endedMs: nowMs, outcome: "failed", error, stack, delayMs: 0 } as const;
  return { ...withAttempt(task, end), progress: task.trail?.progress };
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
