import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { settle } from "../../../../../simulated/src/index.ts";
import {
  acme,
  BrokerWorld,
  type BrokerWorldOptions,
  claim,
  claimIds,
  countedKeys,
  countsInMemory,
  enqueue,
  enqueueNow,
  nack,
  owned,
  promoteNow,
  runDue,
  sorted,
} from "../../../../test/broker-world.ts";
import type { ShardBroker } from "../shard-broker.ts";

async function setup(
  options: BrokerWorldOptions = {},
): Promise<{ world: BrokerWorld; broker: ShardBroker; inMs: (ms: number) => number }> {
  const world = new BrokerWorld(options);
  return { world, broker: await world.open(), inMs: (ms) => world.clock.nowMs() + ms };
}

/** Lets time pass in steps, as the ticker sees it, and returns what became ready, in order. */
async function pass(
  world: BrokerWorld,
  broker: ShardBroker,
  ms: number,
  stepMs = 100,
): Promise<string[]> {
  const ids: string[] = [];
  for (let passed = 0; passed < ms; passed += stepMs) {
    await world.clock.advance(stepMs);
    ids.push(...(await runDue(broker, world.clock)).map(({ id }) => id));
  }
  return ids;
}

test("a delayed task is not claimable before its time, to the millisecond", async () => {
  const { world, broker, inMs } = await setup();
  const task = await enqueue(broker, { visibleMs: inMs(1500) });
  assert.deepEqual(await claimIds(broker), []);
  await world.clock.advance(1499);
  assert.deepEqual(await runDue(broker, world.clock), []);
  await world.clock.advance(1);
  assert.equal((await runDue(broker, world.clock)).length, 1);
  assert.deepEqual(await claimIds(broker), [task.id]);
});

test("a time that is not in the future means at once", async () => {
  const { broker, inMs } = await setup();
  const tasks = [
    await enqueue(broker, { visibleMs: inMs(0) }),
    await enqueue(broker, { visibleMs: 1 }),
  ];
  assert.deepEqual(
    await claimIds(broker, { count: 5 }),
    tasks.map(({ id }) => id),
  );
});

test("a promoted task wakes who waits", async () => {
  const { world, broker, inMs } = await setup();
  const task = await enqueue(broker, { visibleMs: inMs(100) });
  const waiting = claimIds(broker, { waitMs: 5000 });
  await world.clock.advance(100);
  await runDue(broker, world.clock);
  assert.deepEqual(await waiting, [task.id]);
});

test("whatever is due earlier than everything else is announced", async () => {
  const { broker, inMs } = await setup();
  const announced: number[] = [];
  broker.delayed.onDue = (wallMs) => announced.push(wallMs - inMs(0));
  for (const ms of [5000, 7000, 3000, 4000]) await enqueue(broker, { visibleMs: inMs(ms) });
  assert.deepEqual(announced, [5000, 3000]);
});

test("a task is not promoted twice, nor by an entry that is out of date", async () => {
  const { world, broker, inMs } = await setup();
  const task = await enqueue(broker, { visibleMs: inMs(100) });
  const dueMs = inMs(100);
  await world.clock.advance(100);
  const promoted = (number: number): number =>
    promoteNow(broker, { id: task.id, number }).tasks.length;
  assert.equal(promoted(dueMs - 1), 0);
  assert.equal(promoted(dueMs), 1);
  assert.equal(promoted(dueMs), 0);
  assert.deepEqual(sorted(countsInMemory(broker)), sorted(await countedKeys(broker.store)));
});

test("the latest wish counts: a nack after a promotion waits anew", async () => {
  const { world, broker, inMs } = await setup();
  const task = await enqueue(broker, { visibleMs: inMs(100) });
  await pass(world, broker, 100);
  await claim(broker);
  nack(broker, owned(task), { delaySeconds: 2, reason: "" });
  assert.deepEqual(await pass(world, broker, 1900), []);
  assert.deepEqual(await pass(world, broker, 100), [task.id]);
});

test("more delayed tasks than memory takes: memory is bounded, all come, each in its time", async () => {
  const { world, broker, inMs } = await setup({ delayedInMemoryMax: 10 });
  const due: { id: string; at: number }[] = [];
  for (let n = 0; n < 200; n += 1) {
    const at = ((n * 7919) % 2000) + 1;
    due.push({ id: (await enqueue(broker, { visibleMs: inMs(at) })).id, at });
    assert.ok(broker.delayed.size <= 10, `${broker.delayed.size} in memory`);
  }
  const expected = due.toSorted((a, b) => a.at - b.at);
  const came: string[] = [];
  for (let ms = 0; ms < 2000; ms += 50) {
    came.push(...(await pass(world, broker, 50, 50)));
    assert.ok(broker.delayed.size <= 10, `${broker.delayed.size} in memory`);
    assert.equal(came.length, expected.filter(({ at }) => at <= ms + 50).length);
  }
  assert.deepEqual(
    came,
    expected.map(({ id }) => id),
  );
});

test("many queues with few delayed tasks each stay within the same bound", async () => {
  const { world, broker, inMs } = await setup({ delayedInMemoryMax: 20 });
  for (let n = 0; n < 200; n += 1) {
    await enqueue(broker, { command: `c${n % 100}`, visibleMs: inMs(1000 + n) });
    assert.ok(broker.delayed.size <= 20, `${broker.delayed.size} in memory`);
  }
  assert.equal((await pass(world, broker, 1200)).length, 200);
});

test("recovering many queues stays within the bound, too", async () => {
  const { world, broker, inMs } = await setup({ delayedInMemoryMax: 20 });
  for (let n = 0; n < 200; n += 1) {
    enqueueNow(broker, { command: `c${n % 10}`, visibleMs: inMs(1000 + n) });
  }
  const next = await world.reopen(broker);
  await pass(world, next, 500);
  assert.ok(next.delayed.size <= 20, `${next.delayed.size} in memory`);
  assert.equal((await pass(world, next, 700)).length, 200);
});

test("more than one stretch on disk is read piece by piece after a restart", async () => {
  const { world, broker, inMs } = await setup({ delayedInMemoryMax: 100_000 });
  const startMs = inMs(0);
  for (let n = 0; n < 4500; n += 1) enqueueNow(broker, { visibleMs: startMs + 1000 + (n % 900) });
  await settle();
  const next = await world.reopen(broker);
  assert.equal(next.delayed.size, 0);
  await runDue(next, world.clock);
  assert.equal(next.delayed.size, 2000);
  await world.clock.advance(1000 + 449);
  assert.equal((await runDue(next, world.clock)).length, 2250);
  await world.clock.advance(1000);
  assert.equal((await runDue(next, world.clock)).length, 2250);
  assert.equal(next.counts(acme, "work").ready[0], 4500);
  assert.equal(next.counts(acme, "work").delayed, 0);
});

test("what arrives while a stretch is read is neither lost nor doubled", async () => {
  const { world, broker, inMs } = await setup({ delayedInMemoryMax: 1000 });
  const early = await enqueue(broker, { visibleMs: inMs(500) });
  const next = await world.reopen(broker);
  const item = next.delayed.first();
  assert.equal(item?.id, undefined);
  const reading = next.delayed.readStretch(item!);
  const before = await enqueue(next, { visibleMs: inMs(100) });
  const after = await enqueue(next, { visibleMs: inMs(900) });
  await reading;
  assert.equal(next.delayed.size, 3);
  assert.deepEqual(await pass(world, next, 1000), [before.id, early.id, after.id]);
});

test("a stretch that could not be read is read again, with what arrived meanwhile", async () => {
  const { world, broker, inMs } = await setup({ delayedInMemoryMax: 4 });
  for (const ms of [100, 200, 300, 400, 500, 600]) await enqueue(broker, { visibleMs: inMs(ms) });
  const { store } = broker;
  const read = store.delayedAfter;
  store.delayedAfter = () => Promise.reject(new Error("not now"));
  let item = broker.delayed.first();
  await world.clock.advance(600);
  while (item?.id !== undefined) {
    broker.delayed.drop(item);
    void broker.promote([{ id: item.id, number: item.dueMs }]);
    item = broker.delayed.first();
  }
  assert.ok(item, "the rest has to be read");
  const failed = broker.delayed.readStretch(item);
  const meanwhile = await enqueue(broker, { visibleMs: inMs(50) });
  await assert.rejects(failed, /not now/);
  store.delayedAfter = read;
  const came = await pass(world, broker, 100, 50);
  assert.equal(came.at(-1), meanwhile.id);
  assert.equal(broker.counts(acme, "work").delayed, 0);
  assert.equal(broker.counts(acme, "work").ready[0], 7);
});

test("whatever is delayed, promoted and restarted: nothing is forgotten or early", async () => {
  const step = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        kind: fc.constant("add" as const),
        ms: fc.nat(400),
        queue: fc.nat(3),
      }),
    },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.nat(150) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("reopen" as const) }) },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 60 }),
      fc.integer({ min: 1, max: 12 }),
      async (steps, delayedInMemoryMax) => {
        const { world, ...rest } = await setup({ delayedInMemoryMax, flushBytes: 20_000 });
        let { broker } = rest;
        const waiting = new Map<string, number>();
        const check = async (): Promise<void> => {
          const promoted = new Set(
            (await runDue(broker, world.clock)).map(({ id }) => id as string),
          );
          for (const [id, dueMs] of waiting) {
            assert.equal(promoted.has(id), dueMs <= world.clock.nowMs());
            if (promoted.has(id)) waiting.delete(id);
          }
          assert.ok(broker.delayed.size <= delayedInMemoryMax);
        };
        for (const step of steps) {
          if (step.kind === "add") {
            const visibleMs = world.clock.nowMs() + 1 + step.ms;
            const task = enqueueNow(broker, { command: `c${step.queue}`, visibleMs });
            waiting.set(task.id, visibleMs);
          } else if (step.kind === "pass") {
            await world.clock.advance(step.ms);
            await check();
          } else {
            broker = await world.reopen(broker);
          }
        }
        await world.clock.advance(500);
        await check();
        assert.equal(waiting.size, 0);
      },
    ),
    { numRuns: 60 },
  );
});
