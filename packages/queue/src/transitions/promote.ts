import { accept, type Outcome, refuse } from "../outcome.ts";
import type { Task } from "../task.ts";

/**
 * Moves a task whose time has come to the back of its queue. Whether the time has come is for the
 * caller to say, who keeps the delayed tasks in the order of their times.
 */
export function promote(
  task: Task,
  at: { readonly nowMs: number; readonly seq: number },
): Outcome<Task, "not_delayed"> {
  if (task.place.in !== "delayed") return refuse("not_delayed");
  return accept({ ...task, updatedMs: at.nowMs, place: { in: "ready", seq: at.seq } });
}
