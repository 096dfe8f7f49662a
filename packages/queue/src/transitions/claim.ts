import { accept, type Outcome, refuse } from "../outcome.ts";
import type { Task, WorkerId } from "../task.ts";

/**
 * Hands a ready task to a worker. Each claim gives a new lease token, so that a worker with
 * an older token is recognized. A claim is not an attempt: only a delivery that comes back is.
 */
export function claim(
  task: Task,
  by: { readonly workerId: WorkerId; readonly leaseMs: number },
  nowMs: number,
): Outcome<Task, "not_ready"> {
  if (task.place.in !== "ready") return refuse("not_ready");
  return accept({
    ...task,
    leaseToken: task.leaseToken + 1,
    updatedMs: nowMs,
    place: {
      in: "leased",
      workerId: by.workerId,
      untilMs: nowMs + by.leaseMs,
      leaseMs: by.leaseMs,
      sinceMs: nowMs,
    },
  });
}
