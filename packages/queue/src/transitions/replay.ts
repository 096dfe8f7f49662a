import { accept, type Outcome, refuse } from "../outcome.ts";
import { noRepairs, type Task } from "../task.ts";

/**
 * An operator gives a dead letter all of its attempts again. It keeps its id and goes to the back of
 * its queue; its result goes away, because it is no longer true. The error stays until
 * there is another one, so that the reason remains visible. A bulk job replays a task once, also when
 * it is dead again.
 */
export function replay(
  task: Task,
  at: { readonly nowMs: number; readonly seq: number; readonly job?: string | undefined },
): Outcome<Task, "not_dead" | "already_done"> {
  const { job = "" } = at;
  if (job !== "" && task.repairs?.job === job) return refuse("already_done");
  if (task.place.in !== "dead") return refuse("not_dead");
  return accept({
    ...task,
    attempts: 0,
    handBacks: 0,
    replays: task.replays + 1,
    repairs: job === "" ? task.repairs : { ...(task.repairs ?? noRepairs), job },
    updatedMs: at.nowMs,
    place: { in: "ready", seq: at.seq },
    result: undefined,
  });
}
