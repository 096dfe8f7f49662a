import { accept, type Outcome } from "../outcome.ts";
import { checkOwner, type LeasedTask, type Owner } from "../owner.ts";
import { type Report, withReport } from "../report.ts";
import type { Task } from "../task.ts";

/**
 * The lease starts anew from now. A worker may ask for less than is left, which shortens it: the
 * worker knows best how long it still needs. One that was cancelled is not extended beyond its grace, and
 * none beyond the timeout of its task. What the worker says with it is kept.
 */
export function extendLease(
  task: Task,
  by: Owner,
  at: {
    readonly nowMs: number;
    readonly leaseMs: number;
    /** How long the attempt has been under way, by a clock that never steps. */
    readonly ranMs: number;
    readonly report?: Report | undefined;
  },
): Outcome<LeasedTask, "not_owner" | "not_in_progress"> {
  const owned = checkOwner(task, by);
  if (!owned.ok) return owned;
  const { trail } = task;
  const leaseMs = Math.max(1, Math.min(at.leaseMs, leftMs(task, at)));
  return accept({
    ...owned.value,
    updatedMs: at.nowMs,
    place: { ...owned.value.place, untilMs: at.nowMs + leaseMs, leaseMs },
    trail: at.report === undefined ? trail : withReport(trail, at.report, at.nowMs),
  });
}

/** How long the lease may last from now on, whatever its worker asks for. */
function leftMs(
  { cancelMs, extras }: Task,
  { nowMs, ranMs }: { readonly nowMs: number; readonly ranMs: number },
): number {
  const timeoutMs = extras?.timeoutMs ?? 0;
  const untilCancelled = cancelMs === 0 ? Number.POSITIVE_INFINITY : cancelMs - nowMs;
  const untilTimeout = timeoutMs === 0 ? Number.POSITIVE_INFINITY : Math.ceil(timeoutMs - ranMs);
  return Math.min(untilCancelled, untilTimeout);
}
