/**
 * Who may speak for a running task. The owner is the worker that claimed it, and a lease token,
 * when one is given, must be that of the latest claim. The check is never skipped, and it does not
 * look at the time: a lease that ran out but was not taken back still belongs to its worker, so
 * that finished work is not thrown away.
 */
import { accept, type Outcome, refuse } from "./outcome.ts";
import type { Place, Task, WorkerId } from "./task.ts";

export interface Owner {
  readonly workerId: WorkerId;
  readonly leaseToken?: number | undefined;
}

export interface LeasedTask extends Task {
  readonly place: Extract<Place, { readonly in: "leased" }>;
}

export function checkOwner(
  task: Task,
  owner: Owner,
): Outcome<LeasedTask, "not_owner" | "not_in_progress"> {
  if (!isLeased(task)) return refuse("not_in_progress");
  if (!isSameWorker(task.place.workerId, owner)) return refuse("not_owner");
  if (!isCurrentToken(task, owner)) return refuse("not_owner");
  return accept(task);
}

export function isLeased(task: Task): task is LeasedTask {
  return task.place.in === "leased";
}

/** An empty id matches no worker, not even another empty id. */
export function isSameWorker(workerId: WorkerId, owner: Owner): boolean {
  return owner.workerId !== "" && owner.workerId === workerId;
}

/** A worker that does not send its token is trusted by its id alone. */
export function isCurrentToken(task: Task, owner: Owner): boolean {
  return owner.leaseToken === undefined || owner.leaseToken === task.leaseToken;
}
