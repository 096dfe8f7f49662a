/**
 * The deliveries of a task. Those that came back are kept in its trail, as many as there is room for;
 * the one under way, and the one that ended in a result, follow from its place, so that a task which is
 * done at the first try keeps nothing.
 */
import type { LeasedTask } from "./owner.ts";
import type { PastDelivery, Task, Trail } from "./task.ts";

export interface Delivery extends Omit<PastDelivery, "endedMs" | "outcome"> {
  /** Undefined while a worker has the task. */
  readonly endedMs: number | undefined;
  readonly outcome: PastDelivery["outcome"] | "running" | "completed" | "failed";
}

export const deliveriesMax = 20;
const errorCharsMax = 200;

/** The trail of a task whose delivery ends like this. */
export function withDelivery(
  { leaseToken, place, trail }: LeasedTask,
  end: Pick<PastDelivery, "endedMs" | "outcome" | "error" | "delayMs">,
): Trail {
  const { workerId, sinceMs: startedMs } = place;
  const error = end.error.slice(0, errorCharsMax);
  const delivery = { workerId, leaseToken, startedMs, ...end, error };
  const before = trail?.deliveries ?? [];
  const deliveries = [...before.slice(1 - deliveriesMax), delivery];
  // How far it came says nothing about the next delivery.
  return { deliveries, progress: undefined, logs: trail?.logs ?? [] };
}

/** The newest deliveries of a task, in their order; `leaseToken` says how many there were in all. */
export function deliveriesOf(task: Task): readonly Delivery[] {
  const { leaseToken, place, trail, error } = task;
  const past = trail?.deliveries ?? [];
  if (place.in === "leased") {
    const { workerId, sinceMs: startedMs } = place;
    const running = { outcome: "running", endedMs: undefined, error: "", delayMs: 0 } as const;
    return [...past, { workerId, leaseToken, startedMs, ...running }];
  }
  if (place.in !== "done" || place.workerId === "") return past;
  const { workerId, startedMs, atMs: endedMs, how: outcome } = place;
  return [...past, { workerId, leaseToken, startedMs, endedMs, outcome, error, delayMs: 0 }];
}
