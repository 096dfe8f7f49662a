/**
 * How many tasks of a queue were enqueued, ended and retried. Counted at the decision, with the counts of
 * the places; a decision that a full disk undoes stays counted.
 */
import type { Cause, Task } from "@codeq/queue";
import type { QueueCounts } from "../broker/queue.ts";
import { addCounts } from "../records/counts.ts";

export const minuteMs = 60_000;

export interface Flow {
  /** Created, or replayed by an operator. */
  enqueued: number;
  completed: number;
  /** Ended without success: failed without a retry, cancelled, not begun in time, or out of attempts. */
  failed: number;
  /** Attempts that failed and are followed by another. */
  retried: number;
}

export function noFlow(): Flow {
  return { enqueued: 0, completed: 0, failed: 0, retried: 0 };
}

export function addFlow(one: Flow, other: Flow, times = 1): Flow {
  return {
    enqueued: one.enqueued + other.enqueued * times,
    completed: one.completed + other.completed * times,
    failed: one.failed + other.failed * times,
    retried: one.retried + other.retried * times,
  };
}

export function hasFlow({ enqueued, completed, failed, retried }: Flow): boolean {
  return enqueued + completed + failed + retried > 0;
}

/** Adds up the counts of one queue in two shards. */
export function addQueueCounts(one: QueueCounts, other: QueueCounts): QueueCounts {
  const oldest = [one.oldestMs, other.oldestMs].filter((each) => typeof each === "number");
  return {
    queue: one.queue,
    counts: addCounts(one.counts, other.counts),
    flow: addFlow(one.flow, other.flow),
    oldestMs: oldest.length === 0 ? undefined : Math.min(...oldest),
  };
}

export function countChange(flow: Flow, because: Cause, after: Task | undefined): void {
  switch (because) {
    case "created":
    case "replayed":
      flow.enqueued += 1;
      return;
    case "finished":
    case "nacked":
    case "abandoned":
    case "expired":
    case "cancelled":
    case "lapsed":
      countEnd(flow, because, after);
      return;
    default:
      if (because === "released" && after?.place.in === "done") flow.failed += 1;
  }
}

function countEnd(flow: Flow, because: Cause, after: Task | undefined): void {
  const place = after?.place;
  if (place?.in === "done" && place.how === "completed") flow.completed += 1;
  else if (place?.in === "done" || place?.in === "dead") flow.failed += 1;
  else if (because !== "cancelled") flow.retried += 1;
}
