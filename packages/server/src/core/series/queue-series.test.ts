import assert from "node:assert/strict";
import { test } from "node:test";
import {
  acme,
  BrokerWorld,
  claim,
  enqueue,
  entriesUnder,
  owned,
  submit,
  success,
  umbrella,
} from "../../../test/broker-world.ts";
import type { ShardBroker } from "../broker/shard-broker.ts";
import type { Clock } from "../clock.ts";
import type { SeriesPoint } from "../records/series-record.ts";
import { seriesPrefix } from "../store/keys.ts";
import { minuteMs } from "./flow.ts";
import { QueueSeries } from "./queue-series.ts";

const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

async function setup(): Promise<{ world: BrokerWorld; broker: ShardBroker }> {
  const world = new BrokerWorld();
  return { world, broker: await world.open() };
}

async function finish(broker: ShardBroker, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const task = await enqueue(broker);
    await claim(broker);
    await submit(broker, owned(task), success).done;
  }
}

function completed(points: readonly SeriesPoint[]): number[] {
  return points.map((point) => point.completed);
}

test("minutes are kept for a day and add up to hours, which are kept for a week", async () => {
  const { world, broker } = await setup();
  const minutes = { name: "work", tenantId: acme, unit: "m" } as const;
  const hours = { ...minutes, unit: "h" } as const;
  await finish(broker, 1);
  await world.clock.advance(minuteMs);
  await broker.series.turn();
  await finish(broker, 4);
  await world.clock.advance(minuteMs);
  await broker.series.turn();
  assert.deepEqual(completed(await broker.seriesOf(minutes)), [1, 4]);
  assert.deepEqual(await broker.seriesOf(hours), []);
  await world.clock.advance(hourMs);
  await broker.series.turn();
  assert.deepEqual(completed(await broker.seriesOf(hours)), [5]);
  await world.clock.advance(dayMs);
  await broker.series.turn();
  await finish(broker, 2);
  await world.clock.advance(minuteMs);
  await broker.series.turn();
  assert.deepEqual(completed(await broker.seriesOf(minutes)), [2]);
  await world.clock.advance(hourMs);
  await broker.series.turn();
  assert.deepEqual(completed(await broker.seriesOf(hours)), [5, 2]);
  await world.clock.advance(7 * dayMs);
  await broker.series.turn();
  assert.deepEqual(await entriesUnder(broker.store, seriesPrefix), []);
});

test("hours that ended while nobody was there are added up by the next one that ends", async () => {
  const { world, broker } = await setup();
  const hours = { name: "*", tenantId: acme, unit: "h" } as const;
  await finish(broker, 3);
  await broker.series.turn();
  await world.clock.advance(3 * hourMs);
  const next = await world.reopen(broker);
  await next.series.turn();
  assert.deepEqual(await next.seriesOf(hours), []);
  await world.clock.advance(hourMs);
  await next.series.turn();
  assert.deepEqual(completed(await next.seriesOf(hours)), [3]);
});

test("the parts of a minute add up after a restart, and when the clock was set back", async () => {
  const { world, broker } = await setup();
  const minutes = { name: "work", tenantId: acme, unit: "m" } as const;
  await finish(broker, 3);
  await broker.series.turn();
  const next = await world.reopen(broker);
  let backMs = 0;
  const nowMs = (): number => world.clock.nowMs() - backMs;
  const monotonicMs = (): number => world.clock.monotonicMs();
  const clock = { nowMs, monotonicMs } as Clock;
  const series = new QueueSeries({ store: next.store, queues: next.queues, clock });
  for (const count of [2, 5]) {
    await finish(next, count);
    await world.clock.advance(minuteMs);
    await series.turn();
  }
  backMs = 2 * minuteMs;
  await series.turn();
  for (const count of [10, 20]) {
    await finish(next, count);
    await world.clock.advance(minuteMs);
    await series.turn();
  }
  assert.deepEqual(completed(await series.points(minutes)), [15, 25]);
});

test("what happened in the queues of a tenant adds up, and is nobody else's", async () => {
  const { world, broker } = await setup();
  await enqueue(broker, { command: "a" });
  await enqueue(broker, { command: "b" });
  await enqueue(broker, { command: "b", tenantId: umbrella });
  await world.clock.advance(minuteMs);
  await broker.series.turn();
  const all = { name: "*", unit: "m" } as const;
  const [ours] = await broker.seriesOf({ ...all, tenantId: acme });
  assert.deepEqual([ours?.enqueued, ours?.ready, ours?.oldestMs], [2, 2, minuteMs]);
  const [theirs] = await broker.seriesOf({ ...all, tenantId: umbrella });
  assert.deepEqual([theirs?.enqueued, theirs?.ready], [1, 1]);
});
