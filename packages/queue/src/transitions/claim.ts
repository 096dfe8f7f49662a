import { accept, type Outcome, refuse } from "../outcome.ts";
import type { Task, WorkerId } from "../task.ts";
import { hasLapsed } from "./end-unfinished.ts";

/**
 * Moves a delayed task that is due to the back of its queue. The caller decides when a task is due, because it
 * keeps the delayed tasks in the order of their times.
 */
export function promote(
  task: Task,
  at: { readonly nowMs: number; readonly seq: number },
): Outcome<Task, "not_delayed"> {
  if (task.place.in !== "delayed") return refuse("not_delayed");
  return accept({ ...task, updatedMs: at.nowMs, place: { in: "ready", seq: at.seq } });
}

/**
 * Hands a ready task to a worker. Each claim gives a new lease token, so that a worker with
 * an older token is recognized. A claim does not count as an attempt: only one that comes back does. No lease
 * goes beyond the timeout of the task, and no task is begun after its time to live.
 */
export function claim(
  task: Task,
  by: { readonly workerId: WorkerId; readonly leaseMs: number },
  nowMs: number,
): Outcome<Task, "not_ready" | "has_lapsed"> {
  if (task.place.in !== "ready") return refuse("not_ready");
  const { extras, lane } = task;
  let { leaseMs } = by;
  if (extras !== undefined) {
    if (hasLapsed(task, nowMs)) return refuse("has_lapsed");
    if (extras.timeoutMs !== 0) leaseMs = Math.min(leaseMs, extras.timeoutMs);
  }
  return accept({
    ...task,
    leaseToken: task.leaseToken + 1,
    lane: lane && {
      name: lane.name,
      cost: lane.cost,
      holds: lane.holds,
      seq: task.place.seq,
    },
    updatedMs: nowMs,
    place: {
      in: "leased",
      workerId: by.workerId,
      untilMs: nowMs + leaseMs,
      leaseMs,
      sinceMs: nowMs,
    },
  });
}
