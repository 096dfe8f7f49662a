import { accept, type Outcome, refuse } from "../outcome.ts";
import type { Task } from "../task.ts";

/**
 * An operator gives a dead letter all of its deliveries again. It keeps its id and goes to the back of
 * its queue; its result goes away, because it is not what became of the task. The error stays until
 * there is another one, so that whoever looks sees why it was dead.
 */
export function replay(
  task: Task,
  at: { readonly nowMs: number; readonly seq: number },
): Outcome<Task, "not_dead"> {
  if (task.place.in !== "dead") return refuse("not_dead");
  return accept({
    ...task,
    attempts: 0,
    handBacks: 0,
    replays: task.replays + 1,
    updatedMs: at.nowMs,
    place: { in: "ready", seq: at.seq },
    result: undefined,
  });
}
