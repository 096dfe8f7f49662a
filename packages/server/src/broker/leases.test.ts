import assert from "node:assert/strict";
import { test } from "node:test";
import type { WorkerId } from "@codeq/queue";
import {
  acme,
  BrokerWorld,
  claim,
  claimIds,
  enqueue,
  owned,
  runDue,
  success,
} from "../../test/broker-world.ts";
import type { Broker } from "./broker.ts";

async function setup(): Promise<{ world: BrokerWorld; broker: Broker }> {
  const world = new BrokerWorld();
  return { world, broker: await world.open() };
}

test("a lease that ends gives the task back with backoff, and counts an attempt", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker, { leaseMs: 10_000 });
  await world.clock.advance(9_999);
  await runDue(broker, world.clock);
  assert.equal(broker.counts(acme, "work").leased, 1);
  await world.clock.advance(1);
  await runDue(broker, world.clock);
  assert.equal(broker.leases.size, 0);
  const read = await broker.get(acme, task.id);
  assert.equal(read?.task.attempts, 1);
  assert.deepEqual(read?.task.place, { in: "delayed", dueMs: world.clock.nowMs() + 5000 });
});

test("S5: a task whose last lease ends is buried, with a result that says why", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker, { maxAttempts: 1 });
  await claim(broker, { leaseMs: 1000 });
  await world.clock.advance(1000);
  await runDue(broker, world.clock);
  assert.equal((await broker.get(acme, task.id))?.task.place.in, "dead");
  const result = await broker.result(acme, task.id);
  assert.deepEqual([result?.status, result?.error], ["FAILED", "LEASE_EXPIRED"]);
});

test("S23: a step of the wall clock neither shortens nor prolongs a lease", async () => {
  for (const stepMs of [-86_400_000, 86_400_000]) {
    const { world, broker } = await setup();
    await enqueue(broker);
    await claim(broker, { leaseMs: 10_000 });
    world.clock.stepWall(stepMs);
    await world.clock.advance(9_999);
    await runDue(broker, world.clock);
    assert.equal(broker.leases.size, 1);
    await world.clock.advance(1);
    await runDue(broker, world.clock);
    assert.equal(broker.leases.size, 0);
  }
});

test("S23: a wall clock that was set back while the server was down does not prolong a lease", async () => {
  const { world, broker } = await setup();
  await enqueue(broker);
  await claim(broker, { leaseMs: 30_000 });
  await broker.store.engine[Symbol.asyncDispose]();
  world.clock.stepWall(-86_400_000);
  const next = await world.open();
  await world.clock.advance(30_000);
  await runDue(next, world.clock);
  assert.equal(next.leases.size, 0);
});

test("S13: a recovered lease has at least the time of one heartbeat left", async () => {
  for (const [leaseMs, graceMs] of [
    [60_000, 20_000],
    [3000, 5000],
    [20_000, 6667],
  ] as const) {
    const { world, broker } = await setup();
    const task = await enqueue(broker);
    await claim(broker, { leaseMs });
    await broker.store.engine[Symbol.asyncDispose]();
    await world.clock.advance(leaseMs * 10);
    const next = await world.open();
    const read = await next.get(acme, task.id);
    assert.ok(read?.task.place.in === "leased");
    assert.equal(read.task.place.untilMs, world.clock.nowMs() + graceMs);
    await world.clock.advance(graceMs - 1);
    await runDue(next, world.clock);
    assert.equal(next.leases.size, 1);
    await world.clock.advance(1);
    await runDue(next, world.clock);
    assert.equal(next.leases.size, 0);
  }
});

test("S13: a heartbeat is answered from memory and written at most every five seconds", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker, { leaseMs: 10_000 });
  const { engine } = broker.store;
  const before = engine.stats().durableIndex;
  const beat = async (): Promise<number> => {
    const outcome = broker.heartbeat(owned(task), 10_000);
    assert.ok(outcome.ok);
    assert.equal(outcome.value.untilMs, world.clock.nowMs() + 10_000);
    await world.clock.advance(1000);
    return engine.stats().durableIndex - before;
  };
  for (let n = 0; n < 5; n += 1) assert.equal(await beat(), 0);
  for (let n = 0; n < 5; n += 1) assert.equal(await beat(), 1);
  assert.equal(await beat(), 2);
  const read = await broker.get(acme, task.id);
  assert.ok(read?.task.place.in === "leased");
  assert.equal(read.task.place.untilMs, world.clock.nowMs() + 9000);
});

test("a heartbeat may shorten a lease, and the shortest lease is announced", async () => {
  const { world, broker } = await setup();
  const announced: number[] = [];
  broker.leases.onDue = (monotonicMs) => announced.push(monotonicMs - world.clock.monotonicMs());
  const [first, second] = [await enqueue(broker), await enqueue(broker)];
  await claim(broker, { leaseMs: 9000 });
  await claim(broker, { leaseMs: 8000 });
  assert.ok(broker.heartbeat(owned(first), 2000).ok);
  assert.ok(broker.heartbeat(owned(second), 60_000).ok);
  assert.deepEqual(announced, [9000, 8000, 2000]);
  await world.clock.advance(2000);
  await runDue(broker, world.clock);
  assert.deepEqual([broker.leases.get(first.id), broker.leases.size], [undefined, 1]);
});

test("S11: a lease that ended but was not taken back is still its owner's", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker, { leaseMs: 1000 });
  await world.clock.advance(5000);
  const other = broker.submit(owned(task, "other" as WorkerId), success);
  assert.deepEqual(other, { ok: false, code: "not_owner" });
  assert.ok(broker.submit(owned(task), success).ok);
});

test("S11: once taken back a task is nobody's, once claimed again somebody else's", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker, { leaseMs: 1000 });
  await world.clock.advance(1000);
  await runDue(broker, world.clock);
  assert.deepEqual(broker.submit(owned(task), success), { ok: false, code: "not_in_progress" });
  assert.deepEqual(broker.heartbeat(owned(task), 1000), { ok: false, code: "not_in_progress" });
  await world.clock.advance(5000);
  await runDue(broker, world.clock);
  assert.deepEqual(await claimIds(broker, { workerId: "other" as WorkerId }), [task.id]);
  assert.deepEqual(broker.submit(owned(task), success), { ok: false, code: "not_owner" });
});

test("S12: a token of an earlier claim is refused, also from the same worker", async () => {
  const { broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  broker.abandon(owned(task), { interrupted: true });
  await claim(broker);
  const stale = { ...owned(task), owner: { workerId: owned(task).owner.workerId, leaseToken: 1 } };
  const current = { ...stale, owner: { ...stale.owner, leaseToken: 2 } };
  const refusal = { ok: false, code: "not_owner" };
  assert.deepEqual(broker.heartbeat(stale, 1000), refusal);
  assert.deepEqual(broker.nack(stale, { delaySeconds: 0, reason: "" }), refusal);
  assert.deepEqual(broker.abandon(stale, { interrupted: false }), refusal);
  assert.deepEqual(broker.submit(stale, success), refusal);
  assert.ok(broker.heartbeat(current, 1000).ok);
  assert.ok(broker.submit(current, success).ok);
});

test("D13: a heartbeat right before or after a submit does not bring the task back", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  await world.clock.advance(6000);
  assert.ok(broker.heartbeat(owned(task), 10_000).ok);
  const submitted = broker.submit(owned(task), success);
  assert.ok(submitted.ok);
  assert.deepEqual(broker.heartbeat(owned(task), 10_000), { ok: false, code: "not_in_progress" });
  await submitted.value.done;
  await world.clock.advance(60_000);
  await runDue(broker, world.clock);
  assert.equal((await broker.get(acme, task.id))?.task.place.in, "done");
  const next = await world.kill();
  assert.equal((await next.get(acme, task.id))?.task.place.in, "done");
  assert.equal(next.leases.size, 0);
});

test("the end of a lease that is not there any more changes nothing", async () => {
  const { broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  assert.ok(broker.submit(owned(task), success).ok);
  assert.equal(broker.expire(task.id), undefined);
  assert.equal(broker.expire("unknown" as typeof task.id), undefined);
  assert.equal((await broker.get(acme, task.id))?.task.place.in, "done");
});

test("S6: an interrupted worker hands back without counting, three times in a row", async () => {
  const { broker } = await setup();
  const task = await enqueue(broker, { maxAttempts: 2 });
  const attempts: number[] = [];
  for (let n = 0; n < 4; n += 1) {
    await claim(broker);
    const outcome = broker.abandon(owned(task), { interrupted: true });
    assert.ok(outcome.ok);
    attempts.push(outcome.value.value.task.attempts);
  }
  assert.deepEqual(attempts, [0, 0, 0, 1]);
  await claim(broker);
  const last = broker.abandon(owned(task), { interrupted: false });
  assert.ok(last.ok && last.value.value.buried);
  await last.value.done;
  assert.equal((await broker.result(acme, task.id))?.error, "MAX_ATTEMPTS");
});
