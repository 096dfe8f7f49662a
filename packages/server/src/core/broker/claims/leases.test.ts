import assert from "node:assert/strict";
import { test } from "node:test";
import type { WorkerId } from "@codeq/queue";
import {
  abandon,
  acme,
  BrokerWorld,
  claim,
  claimIds,
  decidedBy,
  enqueue,
  heartbeat,
  nack,
  owned,
  runDue,
  standing,
  submit,
  success,
} from "../../../../test/broker-world.ts";
import type { ShardBroker } from "../shard-broker.ts";

async function setup(): Promise<{ world: BrokerWorld; broker: ShardBroker }> {
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
  await broker.store[Symbol.asyncDispose]();
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
    await broker.store[Symbol.asyncDispose]();
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

test("S27: time in which the server did not run does not count against a lease", async () => {
  const { world, broker } = await setup();
  const [short, long] = [await enqueue(broker), await enqueue(broker)];
  await claim(broker, { leaseMs: 2000 });
  await claim(broker, { leaseMs: 90_000 });
  await world.clock.advance(1500);
  world.clock.stall(700);
  broker.leases.prolong(700);
  assert.equal(broker.leases.first()?.id, short.id);
  await world.clock.advance(499);
  await runDue(broker, world.clock);
  assert.equal(broker.leases.size, 2);
  await world.clock.advance(1);
  await runDue(broker, world.clock);
  assert.deepEqual(
    [...broker.leases.ofTenant(acme)].map(({ id }) => id),
    [long.id],
  );
});

test("S27: a lease that was given after a stall is no longer than it was given for", async () => {
  const { world, broker } = await setup();
  const [before, after] = [await enqueue(broker), await enqueue(broker)];
  await claim(broker, { leaseMs: 30_000 });
  await world.clock.advance(1000);
  world.clock.stall(60_000);
  await claim(broker, { leaseMs: 30_000 });
  // Only now the stall is noticed.
  broker.leases.prolong(60_000);
  assert.equal(broker.leases.first()?.id, before.id);
  assert.equal(broker.leases.get(before.id)?.untilMs, world.clock.nowMs() + 29_000);
  assert.equal(broker.leases.get(after.id)?.untilMs, world.clock.nowMs() + 30_000);
});

test("S27: after a long stall every lease has the grace of a restart", async () => {
  for (const [leaseMs, passedMs, leftMs] of [
    [2000, 1999, 5000],
    [30_000, 25_000, 10_000],
    [900_000, 2000, 898_000],
  ] as const) {
    const { world, broker } = await setup();
    const task = await enqueue(broker);
    await enqueue(broker);
    await claim(broker, { leaseMs });
    await claim(broker, { leaseMs: 3_600_000 });
    await world.clock.advance(passedMs);
    world.clock.stall(60_000);
    broker.leases.prolong(60_000);
    const read = await broker.get(acme, task.id);
    assert.ok(read?.task.place.in === "leased");
    assert.equal(read.task.place.untilMs, world.clock.nowMs() + leftMs);
    await heartbeat(broker, owned(task), leaseMs).done;
    await world.clock.advance(Math.max(leaseMs, leftMs) - 1);
    await runDue(broker, world.clock);
    assert.equal(broker.leases.size, 2);
    await world.clock.advance(1);
    await runDue(broker, world.clock);
    assert.equal(broker.leases.size, 1);
  }
});

test("S13: a heartbeat is answered when it is durable, and outlives the process", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker, { leaseMs: 10_000 });
  for (let n = 0; n < 3; n += 1) {
    const gate = Promise.withResolvers<void>();
    world.disk.slow("sync", gate.promise);
    const beat = heartbeat(broker, owned(task), 10_000);
    assert.equal(await standing(beat.done), "pending");
    gate.resolve();
    assert.equal((await beat.done).untilMs, world.clock.nowMs() + 10_000);
    await world.clock.advance(5000);
  }
  const read = await broker.get(acme, task.id);
  assert.ok(read?.task.place.in === "leased");
  assert.equal(read.task.place.untilMs, world.clock.nowMs() + 5000);
  await heartbeat(broker, owned(task), 40_000).done;
  const next = await world.kill();
  const again = await next.get(acme, task.id);
  assert.ok(again?.task.place.in === "leased");
  assert.equal(again.task.place.untilMs, world.clock.nowMs() + 40_000);
});

test("a heartbeat never shortens a lease, and the lease that ends first is announced", async () => {
  const { world, broker } = await setup();
  const announced: number[] = [];
  broker.leases.onDue = (monotonicMs) => announced.push(monotonicMs - world.clock.monotonicMs());
  const [first, second] = [await enqueue(broker), await enqueue(broker)];
  await claim(broker, { leaseMs: 9000 });
  await claim(broker, { leaseMs: 8000 });
  await heartbeat(broker, owned(first), 2000).done;
  await heartbeat(broker, owned(second), 60_000).done;
  assert.deepEqual(announced, [9000, 8000]);
  await world.clock.advance(8999);
  await runDue(broker, world.clock);
  assert.equal(broker.leases.size, 2);
  await world.clock.advance(1);
  await runDue(broker, world.clock);
  assert.deepEqual([broker.leases.get(first.id), broker.leases.size], [undefined, 1]);
});

test("S11: a lease that ended but was not taken back is still its owner's", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker, { leaseMs: 1000 });
  await world.clock.advance(5000);
  const other = submit(broker, owned(task, "other" as WorkerId), success);
  assert.equal(other.code, "not_owner");
  await submit(broker, owned(task), success).done;
});

test("S11: once taken back a task is nobody's, once claimed again somebody else's", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker, { leaseMs: 1000 });
  await world.clock.advance(1000);
  await runDue(broker, world.clock);
  assert.equal(submit(broker, owned(task), success).code, "not_in_progress");
  assert.equal(heartbeat(broker, owned(task), 1000).code, "not_in_progress");
  await world.clock.advance(5000);
  await runDue(broker, world.clock);
  assert.deepEqual(await claimIds(broker, { workerId: "other" as WorkerId }), [task.id]);
  assert.equal(submit(broker, owned(task), success).code, "not_owner");
});

test("S12: a token of an earlier claim is refused, also from the same worker", async () => {
  const { broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  abandon(broker, owned(task), { interrupted: true });
  await claim(broker);
  const stale = { ...owned(task), owner: { workerId: owned(task).owner.workerId, leaseToken: 1 } };
  const current = { ...stale, owner: { ...stale.owner, leaseToken: 2 } };
  const code = "not_owner";
  assert.equal(heartbeat(broker, stale, 1000).code, code);
  assert.equal(nack(broker, stale, { delaySeconds: 0, reason: "" }).code, code);
  assert.equal(abandon(broker, stale, { interrupted: false }).code, code);
  assert.equal(submit(broker, stale, success).code, code);
  assert.equal(broker.mayFinish(stale, "completed"), code);
  await heartbeat(broker, current, 1000).done;
  assert.deepEqual(broker.mayFinish(current, "completed"), { isRepeat: false });
  await submit(broker, current, success).done;
  assert.deepEqual(broker.mayFinish(current, "completed"), { isRepeat: true });
});

test("D13: a heartbeat right before or after a submit does not bring the task back", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  await world.clock.advance(6000);
  const beat = heartbeat(broker, owned(task), 10_000);
  const submitted = submit(broker, owned(task), success);
  assert.equal(heartbeat(broker, owned(task), 10_000).code, "not_in_progress");
  await Promise.all([beat.done, submitted.done]);
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
  await submit(broker, owned(task), success).done;
  const decided = decidedBy(broker, () => {
    broker.expire(task.id);
    broker.expire("unknown" as typeof task.id);
  });
  assert.deepEqual(decided, []);
  assert.equal((await broker.get(acme, task.id))?.task.place.in, "done");
});

test("S6: an interrupted worker hands back without counting, three times in a row", async () => {
  const { broker } = await setup();
  const task = await enqueue(broker, { maxAttempts: 2 });
  const attempts: number[] = [];
  for (let n = 0; n < 4; n += 1) {
    await claim(broker);
    const returned = await abandon(broker, owned(task), { interrupted: true }).done;
    attempts.push(returned.task.attempts);
  }
  assert.deepEqual(attempts, [0, 0, 0, 1]);
  await claim(broker);
  assert.ok((await abandon(broker, owned(task), { interrupted: false }).done).buried);
  assert.equal((await broker.result(acme, task.id))?.error, "MAX_ATTEMPTS");
});
