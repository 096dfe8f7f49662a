/**
 * The history of every queue by the minute for a day and by the hour for a week, and the same for all queues
 * of a tenant together. Points are records of the store; memory holds the current minute.
 *
 * A minute in which no task of a queue changed its place has no point: all counts are those of the previous
 * point. The points of an hour are added up when the hour is over. While nothing happens, no timer is set. A
 * process that ends without a shutdown loses the current minute.
 */
import type { TenantId } from "@codeq/queue";
import type { QueueCounts } from "../broker/broker.ts";
import type { QueueState, Queues } from "../broker/queues/queue-state.ts";
import type { Clock } from "../clock.ts";
import {
  allQueues,
  removalOfPoint,
  type SeriesName,
  type SeriesPoint,
  type Times,
  writeOfPoint,
} from "../records/series-record.ts";
import type { QueueName, RecordWrite, Store } from "../store/store.ts";
import { timeOfId } from "../task-ids.ts";
import { addFlow, type Flow, minuteMs, type QueueFlow } from "./flow.ts";
import { addTimes } from "./times.ts";

const minutesKept = 24 * 60;
const hoursKept = 7 * 24;
const minutesPerHour = 60;
const hourMs = minutesPerHour * minuteMs;
/** How many queues get points of their own in a minute; the others count for their tenant only. */
const queuesMax = 5000;
const pieceWrites = 1000;

export class QueueSeries {
  readonly #store: Store;
  readonly #queues: Queues;
  readonly #clock: Clock;
  #hour: number;
  /** There are minutes that are not part of an hour yet. */
  #hasMinutes = false;
  #dueMs: number | undefined;
  /** The latest minute that was written; undefined before the first. */
  #written: number | undefined;

  constructor(parts: {
    readonly store: Store;
    readonly queues: Queues;
    readonly clock: Clock;
  }) {
    this.#store = parts.store;
    this.#queues = parts.queues;
    this.#clock = parts.clock;
    this.#queues.flows.onBusy = () => this.#begin();
    // Minutes from before the last restart are added up with the first hour that ends.
    this.#hour = hourOf(this.#clock.nowMs());
  }

  /** Called when `dueMs` is set for the first time after a rest. */
  onPlanned: () => void = () => {};

  /** When the next point is due, on the monotonic clock; undefined when nothing happened. */
  get dueMs(): number | undefined {
    return this.#dueMs;
  }

  #begin(): void {
    this.#queues.flows.startedMs = this.#clock.nowMs();
    this.#plan(minuteMs);
    this.onPlanned();
  }

  /** Plans the next point for the next full minute, or hour. */
  #plan(sizeMs: number): void {
    this.#dueMs = this.#clock.monotonicMs() + sizeMs - (this.#clock.nowMs() % sizeMs);
  }

  /** Writes the minute that ends now; at a shutdown, the current minute. */
  async turn(): Promise<void> {
    const nowMs = this.#clock.nowMs();
    const points = this.#takePoints();
    if (points.length > 0) this.#hasMinutes = true;
    if (points.length > 0) this.#plan(minuteMs);
    else this.#rest();
    for (const writes of piecesOf(await this.#withStored(points))) {
      await this.#store.commitRecords(writes).done;
    }
    if (hourOf(nowMs) === this.#hour) return;
    this.#hour = hourOf(nowMs);
    this.#hasMinutes = points.length > 0;
    for await (const name of this.#store.seriesNames()) await this.#turnHour(name);
  }

  /** Rests while nothing happens; only an hour with minutes still has to be added up when it is over. */
  #rest(): void {
    this.#queues.flows.isQuiet = true;
    this.#dueMs = undefined;
    if (this.#hasMinutes) this.#plan(hourMs);
  }

  points(of: SeriesName): Promise<SeriesPoint[]> {
    const [sizeMs, kept] = of.unit === "m" ? [minuteMs, minutesKept] : [hourMs, hoursKept];
    const limit = Math.min(kept, of.last ?? kept);
    const to = Math.floor(this.#clock.nowMs() / sizeMs) + 1;
    return this.#store.seriesPoints(of, { from: to - limit, to, limit });
  }

  /** In one turn of the event loop, so that nothing is counted twice or not at all. */
  #takePoints(): (readonly [SeriesName, SeriesPoint])[] {
    const { flows } = this.#queues;
    const minute = Math.floor(flows.startedMs / minuteMs);
    flows.startedMs = this.#clock.nowMs();
    const points: (readonly [SeriesName, SeriesPoint])[] = [];
    for (const [tenantId, queues] of flows.tenants()) {
      let sum: SeriesPoint | undefined;
      let hasMoved = false;
      for (const flow of queues) {
        const { hasMoved: isNew, name } = flow;
        const point = this.#pointOf(flow, minute);
        sum = sum === undefined ? point : addPoints(sum, point);
        hasMoved ||= isNew;
        if (isNew && points.length < queuesMax) points.push([minuteOf(name, tenantId), point]);
      }
      if (sum !== undefined && hasMoved) points.push([minuteOf(allQueues, tenantId), sum]);
    }
    return points;
  }

  #pointOf(flow: QueueFlow, number: number): SeriesPoint {
    const queue = this.#queues.find(flow.tenantId, flow.name);
    if (queue === undefined && !flow.hasMoved) this.#queues.flows.drop(flow);
    return { number, ...flow.turn(), ...this.#depthOf(queue) };
  }

  #depthOf(queue: QueueState | undefined): Omit<SeriesPoint, "number" | keyof Flow | keyof Times> {
    if (queue === undefined) return { ready: 0, delayed: 0, leased: 0, dead: 0, oldestMs: 0 };
    const { readyTotal: ready, counts } = queue;
    const { delayed, leased, dead } = counts;
    const sinceMs = headsSinceMs(queue);
    const oldestMs = sinceMs === undefined ? 0 : Math.max(0, this.#clock.nowMs() - sinceMs);
    return { ready, delayed, leased, dead, oldestMs };
  }

  /** A minute in which the server was restarted, or the clock set back, has two parts. */
  async #withStored(
    points: readonly (readonly [SeriesName, SeriesPoint])[],
  ): Promise<RecordWrite[]> {
    const minute = points[0]?.[1].number;
    if (minute === undefined) return [];
    const isNew = this.#written !== undefined && minute > this.#written;
    this.#written = Math.max(this.#written ?? minute, minute);
    if (isNew) return points.map(([of, point]) => writeOfPoint(of, point));
    const writes: RecordWrite[] = [];
    for (const [of, point] of points) {
      const { number } = point;
      const range = { from: number, to: number + 1, limit: 1 };
      const [before] = await this.#store.seriesPoints(of, range);
      writes.push(writeOfPoint(of, before === undefined ? point : laterPart(before, point)));
    }
    return writes;
  }

  /** Adds up the hours that are over, and removes old points. */
  async #turnHour(name: QueueName): Promise<void> {
    const minutes: SeriesName = { ...name, unit: "m" };
    const hours: SeriesName = { ...name, unit: "h" };
    const everything = { from: 0, to: this.#hour, limit: 1, isReverse: true };
    const [last] = await this.#store.seriesPoints(hours, everything);
    const from = ((last?.number ?? -1) + 1) * minutesPerHour;
    const to = this.#hour * minutesPerHour;
    const fresh = await this.#store.seriesPoints(minutes, { from, to, limit: minutesKept * 2 });
    const writes: RecordWrite[] = [];
    const byHour = Map.groupBy(fresh, ({ number }) => Math.floor(number / minutesPerHour));
    for (const [hour, points] of byHour) {
      const sum = points.reduce(laterPart);
      writes.push(writeOfPoint(hours, { ...sum, number: hour }));
    }
    for (const [of, oldest] of [
      [minutes, to - minutesKept],
      [hours, this.#hour - hoursKept],
    ] as const) {
      const old = await this.#store.seriesPoints(of, { from: 0, to: oldest, limit: pieceWrites });
      writes.push(...old.map((point) => removalOfPoint(of, point)));
    }
    if (writes.length > 0) await this.#store.commitRecords(writes).done;
  }
}

/** Adds up points of the same moment, of two queues or shards. */
export function addPoints(one: SeriesPoint, other: SeriesPoint): SeriesPoint {
  return {
    number: one.number,
    ...addFlow(one, other),
    ...addTimes(one, other),
    ready: one.ready + other.ready,
    delayed: one.delayed + other.delayed,
    leased: one.leased + other.leased,
    dead: one.dead + other.dead,
    oldestMs: Math.max(one.oldestMs, other.oldestMs),
  };
}

/** When the oldest of the tasks at the heads was created; undefined when no head is in memory. */
function headsSinceMs(queue: QueueState): number | undefined {
  let oldest: number | undefined;
  for (const id of queue.heads()) oldest = Math.min(oldest ?? Number.MAX_VALUE, timeOfId(id));
  return oldest;
}

/** Joins two parts of a period: flows and times add up, and the counts of the later part stay. */
function laterPart(before: SeriesPoint, after: SeriesPoint): SeriesPoint {
  return { ...after, ...addFlow(before, after), ...addTimes(before, after) };
}

function minuteOf(name: string, tenantId: TenantId): SeriesName {
  return { name, tenantId, unit: "m" };
}

function hourOf(ms: number): number {
  return Math.floor(ms / hourMs);
}

function* piecesOf(writes: readonly RecordWrite[]): Generator<readonly RecordWrite[]> {
  for (let at = 0; at < writes.length; at += pieceWrites) yield writes.slice(at, at + pieceWrites);
}

/** The counts of every queue of a tenant, from memory. */
export function countsOfQueues(queues: Queues, tenantId: TenantId, nowMs: number): QueueCounts[] {
  const elapsedMs = nowMs - queues.flows.startedMs;
  return [...queues.ofTenant(tenantId)].map(({ name, counts, flow }) => ({
    queue: name,
    counts,
    flow: flow.lastMinute(elapsedMs),
    oldestMs: undefined,
  }));
}

export function withOldest(
  { queues, store }: { readonly queues: Queues; readonly store: Store },
  tenantId: TenantId,
  all: readonly QueueCounts[],
): Promise<QueueCounts[]> {
  const oldest = all.map(async (each) => {
    const queue = queues.find(tenantId, each.queue);
    const oldestMs = queue === undefined ? undefined : await oldestReadyMs(queue, store);
    return { ...each, oldestMs };
  });
  return Promise.all(oldest);
}

/** Reads the heads from disk for a queue without a claim since the start. */
async function oldestReadyMs(queue: QueueState, store: Store): Promise<number | undefined> {
  if (queue.readyTotal === 0) return undefined;
  const known = headsSinceMs(queue);
  if (known !== undefined) return known;
  let oldest: number | undefined;
  for (const [priority, count] of queue.counts.ready.entries()) {
    if (count === 0) continue;
    const [head] = await store.readyAfter({ ...nameOf(queue), priority }, 0, 1);
    if (head !== undefined) oldest = Math.min(oldest ?? Number.MAX_VALUE, timeOfId(head.id));
  }
  return oldest;
}

function nameOf({ tenantId, name }: QueueState): { tenantId: TenantId; name: string } {
  return { tenantId, name };
}
