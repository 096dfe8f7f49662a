/**
 * Ends of tasks that no worker finished: cancelled, or not begun in time.
 *
 * A task that waits ends at once when it is cancelled. A leased task gets a grace period: it stays leased, its
 * worker is notified, and whatever brings the task back ends it. Only a result that arrives before that counts.
 *
 * A producer may set a time by which a task has to be begun; a task that still waits then fails. The limit does not
 * apply to a task that a worker has had: its retries come when they come.
 */
import { withAttempt } from "../attempts.ts";
import type { Retention } from "../ended.ts";
import { emptyResult } from "../ended.ts";
import { accept, type Outcome, refuse } from "../outcome.ts";
import { isLeased } from "../owner.ts";
import type { Task, WorkerId } from "../task.ts";
import { detached } from "./attach.ts";

/** The error of a task that was cancelled. */
export const cancelled = "CANCELLED";

interface CancelAt {
  readonly nowMs: number;
  /** How long its worker may take to stop; 0 takes the task away at once. */
  readonly graceMs: number;
  readonly retention: Retention;
}

export function cancel(task: Task, at: CancelAt): Outcome<Task, "has_ended"> {
  const { place, cancelMs } = task;
  switch (place.in) {
    case "ready":
    case "delayed":
    case "held":
      return accept(endCancelled(task, at));
    case "leased": {
      if (at.graceMs === 0) return accept(endCancelled(task, at));
      const askedMs = at.nowMs + at.graceMs;
      const untilMs =
        cancelMs === 0 ? askedMs : Math.max(Math.min(cancelMs, askedMs), at.nowMs + 1);
      return accept({
        ...task,
        cancelMs: untilMs,
        updatedMs: at.nowMs,
        // The lease ends in the future, also when it ran out and was not taken back yet.
        place: { ...place, untilMs: Math.max(Math.min(place.untilMs, untilMs), at.nowMs + 1) },
      });
    }
    case "dead":
    case "done":
      return refuse("has_ended");
  }
}

/** The end of a task that was cancelled. */
export function endCancelled(task: Task, at: Omit<CancelAt, "graceMs">): Task {
  const ended = endUnfinished(task, { how: "cancelled", error: cancelled }, at);
  return isLeased(task) ? { ...ended, trail: withAttempt(task, endOf(at)) } : ended;
}

function endOf({ nowMs }: { readonly nowMs: number }): Parameters<typeof withAttempt>[1] {
  return { endedMs: nowMs, outcome: "cancelled", error: "", delayMs: 0 };
}

/** The error of a task that no worker began in time. */
export const lapsed = "EXPIRED";

/** The time by which the task has to be begun; undefined when there is none, or the task was begun. */
export function startByMsOf({ extras, place }: Pick<Task, "extras" | "place">): number | undefined {
  if (extras === undefined || extras.startByMs === 0) return undefined;
  return place.in === "ready" || place.in === "delayed" ? extras.startByMs : undefined;
}

export function hasLapsed(task: Pick<Task, "extras" | "place">, nowMs: number): boolean {
  const startByMs = startByMsOf(task);
  return startByMs !== undefined && startByMs <= nowMs;
}

export function lapse(
  task: Task,
  at: { readonly nowMs: number; readonly retention: Retention },
): Outcome<Task, "not_lapsed"> {
  if (!hasLapsed(task, at.nowMs)) return refuse("not_lapsed");
  return accept(endUnfinished(task, { how: "failed", error: lapsed }, at));
}

/** The end of a task without a result from a worker. */
function endUnfinished(
  task: Task,
  { how, error }: { readonly how: "failed" | "cancelled"; readonly error: string },
  at: { readonly nowMs: number; readonly retention: Retention },
): Task {
  return {
    ...detached(task),
    error,
    handBacks: 0,
    cancelMs: 0,
    updatedMs: at.nowMs,
    result: emptyResult,
    place: {
      in: "done",
      how,
      workerId: "" as WorkerId,
      startedMs: at.nowMs,
      atMs: at.nowMs,
      expiresMs: at.nowMs + at.retention.doneMs,
    },
  };
}
