import { accept, type Outcome } from "../outcome.ts";
import { checkOwner, type Owner } from "../owner.ts";
import { type Report, withReport } from "../report.ts";
import type { Task } from "../task.ts";

/**
 * The lease starts anew from now. A worker may ask for less than is left, which shortens it: the
 * worker knows best how long it still needs. One that was cancelled is not extended beyond its grace. What
 * the worker says with it is kept.
 */
export function extendLease(
  task: Task,
  by: Owner,
  at: {
    readonly nowMs: number;
    readonly leaseMs: number;
    readonly report?: Report | undefined;
  },
): Outcome<Task, "not_owner" | "not_in_progress"> {
  const owned = checkOwner(task, by);
  if (!owned.ok) return owned;
  const { cancelMs, trail } = task;
  const leaseMs =
    cancelMs === 0 ? at.leaseMs : Math.max(1, Math.min(at.leaseMs, cancelMs - at.nowMs));
  return accept({
    ...owned.value,
    updatedMs: at.nowMs,
    place: { ...owned.value.place, untilMs: at.nowMs + leaseMs, leaseMs },
    trail: at.report === undefined ? trail : withReport(trail, at.report, at.nowMs),
  });
}
