/**
 * Somebody does not want the task any more. One that waits ends at once. One that a worker has is given
 * a time of grace: it stays leased, its worker is told, and whatever brings it back ends it. Only a
 * result that arrives before that counts.
 */
import { withAttempt } from "../attempts.ts";
import { accept, type Outcome, refuse } from "../outcome.ts";
import { isLeased } from "../owner.ts";
import type { Retention } from "../retention.ts";
import type { Task } from "../task.ts";
import { endUnfinished } from "./end-unfinished.ts";

/** The error of a task that was cancelled. */
export const cancelled = "CANCELLED";

export interface CancelAt {
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
        // Also one that ran out and was not taken back yet ends in the future.
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
  const ended = endUnfinished(task, cancelled, at);
  return isLeased(task) ? { ...ended, trail: withAttempt(task, endOf(at)) } : ended;
}

function endOf({ nowMs }: { readonly nowMs: number }): Parameters<typeof withAttempt>[1] {
  return { endedMs: nowMs, outcome: "cancelled", error: "", delayMs: 0 };
}
