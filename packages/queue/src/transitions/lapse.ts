/**
 * The producer said by when a task has to be begun. One that still waits then ends as failed. A task that a
 * worker has had is not concerned: its retries come when they come.
 */
import { accept, type Outcome, refuse } from "../outcome.ts";
import type { Retention } from "../retention.ts";
import type { Task } from "../task.ts";
import { endUnfinished } from "./end-unfinished.ts";

/** The error of a task that nobody began in time. */
export const lapsed = "EXPIRED";

/** By when the task has to be begun; undefined when it has no such time, or has been begun. */
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
  return accept(endUnfinished(task, lapsed, at));
}

/** The task once a worker has had it. */
export function begun(task: Task): Task {
  if (task.extras === undefined || task.extras.startByMs === 0) return task;
  return { ...task, extras: { ...task.extras, startByMs: 0 } };
}
