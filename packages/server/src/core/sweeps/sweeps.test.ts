/** What the settings of the sweeps decide: how much one step takes, and when. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { noExtras } from "@codeq/queue";
import {
  acme,
  BrokerWorld,
  claim,
  enqueue,
  owned,
  submit,
  success,
} from "../../../test/broker-world.ts";
import type { SweepConfig } from "../../config/settings.ts";
import { createLogger } from "../../telemetry/logger.ts";
import type { ShardBroker } from "../broker/shard-broker.ts";
import { StallWatch } from "./stall-watch.ts";
import {
  deleteOldTasks,
  endLapsedTasks,
  expireLeases,
  promoteDueTasks,
  scrubStore,
} from "./sweeps.ts";

const config: SweepConfig = { sweepBatchMax: 2, retentionSweepSeconds: 60 };

async function setup(): Promise<{ world: BrokerWorld; broker: ShardBroker }> {
  const world = new BrokerWorld();
  return { world, broker: await world.open() };
}

test("one step takes back as many leases as it may", async () => {
  const { world, broker } = await setup();
  for (let n = 0; n < 5; n += 1) await enqueue(broker);
  await claim(broker, { count: 5, leaseMs: 1000 });
  await world.clock.advance(1000);
  const { clock } = world;
  const stalls = new StallWatch({ clock, isNeeded: () => false, onStall: () => {} });
  const job = expireLeases({ broker, clock, config, stalls });
  const left: number[] = [];
  for (let step = 0; step < 3; step += 1) {
    await job.runOnce();
    left.push(broker.counts(acme, "work").leased);
  }
  assert.deepEqual(left, [3, 1, 0]);
  assert.equal(job.nextMs(), undefined);
});

test("one step promotes as many tasks as it may", async () => {
  const { world, broker } = await setup();
  const visibleMs = world.clock.nowMs() + 1000;
  for (let n = 0; n < 5; n += 1) await enqueue(broker, { visibleMs });
  await world.clock.advance(1000);
  const job = promoteDueTasks({ broker, clock: world.clock, config });
  const left: number[] = [];
  for (let step = 0; step < 3; step += 1) {
    await job.runOnce();
    left.push(broker.counts(acme, "work").delayed);
  }
  assert.deepEqual(left, [3, 1, 0]);
});

test("one step deletes as many tasks as it may, those of one span together", async () => {
  const { world, broker } = await setup();
  const { clock } = world;
  const job = deleteOldTasks({ broker, clock, config });
  await job.runOnce();
  for (let n = 0; n < 5; n += 1) {
    const task = await enqueue(broker);
    await claim(broker);
    await submit(broker, owned(task), success).done;
    job.plan(clock.nowMs() + 3_600_000);
    await clock.advance(1);
  }
  const dueMs = clock.nowMs() + (job.nextMs() ?? 0) - clock.monotonicMs();
  assert.equal(dueMs % 60_000, 0);
  assert.ok(dueMs >= clock.nowMs() + 3_600_000 - 5);
  await clock.advance(dueMs - clock.nowMs());
  const left: number[] = [];
  for (let step = 0; step < 3; step += 1) {
    await job.runOnce();
    left.push(
      (
        await broker.store.dueAfter("expired", {
          after: undefined,
          untilMs: Number.POSITIVE_INFINITY,
          limit: 10,
        })
      ).length,
    );
  }
  assert.deepEqual(left, [3, 1, 0]);
});

test("one step ends as many tasks as it may that nobody began in time", async () => {
  const { world, broker } = await setup();
  const { clock } = world;
  const job = endLapsedTasks({ broker, clock, config });
  await job.runOnce();
  assert.equal(job.nextMs(), undefined);
  const extras = { ...noExtras, ttlMs: 1000 };
  for (let n = 0; n < 5; n += 1) await enqueue(broker, { extras });
  const waiting = await enqueue(broker, { extras: { ...noExtras, ttlMs: 60_000 } });
  job.plan(clock.nowMs() + 1000);
  assert.equal(job.nextMs(), clock.monotonicMs() + 1000);
  await clock.advance(1000);
  const left: number[] = [];
  for (let step = 0; step < 3; step += 1) {
    await job.runOnce();
    left.push(broker.counts(acme, "work").ready[0] as number);
  }
  assert.deepEqual(left, [4, 2, 1]);
  assert.equal(job.nextMs(), clock.monotonicMs() + 59_000);
  assert.equal((await claim(broker, { count: 9 }))[0]?.task.id, waiting.id);
});

test("a task whose claim was undone for lack of room ends all the same when nobody began it in time", async () => {
  const { world, broker } = await setup();
  const { clock } = world;
  const job = endLapsedTasks({ broker, clock, config });
  broker.onRecovered.add(() => job.startOver());
  await enqueue(broker, { extras: { ...noExtras, ttlMs: 1000 } });
  world.disk.failNext("write", "ENOSPC");
  const refused = claim(broker);
  // The task is not in the index while it is claimed.
  await job.runOnce();
  assert.equal(job.nextMs(), undefined);
  await assert.rejects(refused, { code: "disk_full" });
  await clock.advance(5000);
  assert.equal(broker.store.state, "open");
  assert.equal(broker.counts(acme, "work").ready[0], 1);
  assert.ok((job.nextMs() ?? Number.POSITIVE_INFINITY) <= clock.monotonicMs());
  await job.runOnce();
  assert.equal(broker.counts(acme, "work").ready[0], 0);
});

test("the store is checked as often as it is said, or never", async () => {
  const { world, broker } = await setup();
  const { clock } = world;
  const store = Object.create(broker.store, { hasFiles: { value: true } }) as ShardBroker["store"];
  const logger = createLogger({
    level: "error",
    format: "json",
    write: assert.fail,
    nowMs: () => clock.nowMs(),
  });
  const parts = { store, clock, logger };
  const startedMs = clock.monotonicMs();
  assert.equal(scrubStore({ ...parts, everyMs: 5000 }).nextMs(), startedMs + 5000);
  assert.equal(scrubStore({ ...parts, everyMs: 0 }).nextMs(), undefined);
});
