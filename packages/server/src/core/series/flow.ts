/**
 * How many tasks of a queue were enqueued, ended and retried. Counted at the decision, with the counts of
 * the places; a decision that a full disk undoes stays counted.
 */
import type { Cause, Change, Task, TenantId } from "@codeq/queue";
import type { QueueCounts } from "../broker/broker.ts";
import { addCounts } from "../records/counts.ts";
import type { Times } from "../records/series-record.ts";
import { bucketsOf, countTimes, noTimes } from "./times.ts";

export const minuteMs = 60_000;

export interface Flow {
  /** Created, or replayed by an operator. */
  enqueued: number;
  completed: number;
  /** Ended without success: failed without a retry, not begun in time, or out of attempts. A cancelled task is no failure. */
  failed: number;
  /** Attempts that failed and are followed by another. */
  retried: number;
}

export function noFlow(): Flow {
  return { enqueued: 0, completed: 0, failed: 0, retried: 0 };
}

/** Shared by all queues in which nothing has happened. */
const still: Flow = Object.freeze(noFlow());
const noTime: ReturnType<typeof noTimes> = noTimes();

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

function countChange(flow: Flow, because: Cause, after: Task | undefined): void {
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
    case "unreached":
    case "released":
      countEnd(flow, because, after);
      return;
    default:
  }
}

function countEnd(flow: Flow, because: Cause, after: Task | undefined): void {
  const place = after?.place;
  if (place?.in === "dead") flow.failed += 1;
  else if (place?.in === "done") {
    if (place.how !== "cancelled") flow[place.how] += 1;
  } else if (because !== "cancelled" && because !== "released") flow.retried += 1;
}

/**
 * The flow of every queue: since the shard was opened, in the current minute, and in the previous one. It is
 * separate from the index of tasks, which is rebuilt after a full disk.
 */
export class QueueFlow implements Flow {
  readonly tenantId: TenantId;
  readonly name: string;
  enqueued = 0;
  completed = 0;
  failed = 0;
  retried = 0;
  /** A task of the queue has moved in the current minute. */
  hasMoved = false;
  /** The totals when the current minute began, and the flow of the previous minute. */
  #atStart: Flow = still;
  #before: Flow = still;
  /** The times of the current minute. */
  times = noTime;

  constructor(tenantId: TenantId, name: string) {
    this.tenantId = tenantId;
    this.name = name;
  }

  /** The flow of the current minute. */
  get current(): Flow {
    return addFlow(this, this.#atStart, -1);
  }

  /** The flow of the previous minute. */
  get before(): Flow {
    return this.#before;
  }

  /** Begins a new minute; returns the flow and the times of the minute that ends. */
  turn(): Flow & Times {
    const { times } = this;
    this.#before = this.hasMoved ? this.current : still;
    if (this.hasMoved) this.#atStart = addFlow(this, noFlow());
    this.hasMoved = false;
    this.times = noTime;
    return { ...this.#before, ...bucketsOf(times) };
  }

  /** An estimate for the last 60 seconds: the current minute and a share of the previous one. */
  lastMinute(elapsedMs: number): Flow {
    const share = Math.max(0, 1 - elapsedMs / minuteMs);
    return addFlow(this.current, this.#before, share);
  }
}

export class QueueFlows {
  readonly #tenants: Map<TenantId, Map<string, QueueFlow>> = new Map();
  /** When the current minute began. */
  startedMs = 0;
  /** Called when something happens and `isQuiet` was set. */
  onBusy: () => void = () => {};
  /** Nothing has happened for a while. */
  isQuiet = true;

  of(tenantId: TenantId, name: string): QueueFlow {
    let queues = this.#tenants.get(tenantId);
    if (queues === undefined) {
      queues = new Map();
      this.#tenants.set(tenantId, queues);
    }
    let flow = queues.get(name);
    if (flow === undefined) {
      flow = new QueueFlow(tenantId, name);
      queues.set(name, flow);
    }
    return flow;
  }

  count(flow: QueueFlow, { before, after, because }: Change): void {
    countChange(flow, because, after);
    if (flow.times === noTime) flow.times = noTimes();
    countTimes(flow.times, before, after);
    flow.hasMoved = true;
    if (!this.isQuiet) return;
    this.isQuiet = false;
    this.onBusy();
  }

  tenants(): Iterable<readonly [TenantId, Iterable<QueueFlow>]> {
    return [...this.#tenants].map(([tenantId, queues]) => [tenantId, queues.values()] as const);
  }

  /** Forgets a queue without flow. */
  drop({ tenantId, name }: QueueFlow): void {
    const queues = this.#tenants.get(tenantId);
    queues?.delete(name);
    if (queues?.size === 0) this.#tenants.delete(tenantId);
  }
}
