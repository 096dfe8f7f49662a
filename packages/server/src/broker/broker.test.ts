import assert from "node:assert/strict";
import { test } from "node:test";
import type { TaskId, WorkerId } from "@codeq/queue";
import { settle } from "../../../simulated/src/index.ts";
import {
  acme,
  BrokerWorld,
  type BrokerWorldOptions,
  claim,
  claimIds,
  countedKeys,
  countsInMemory,
  enqueue,
  newTask,
  owned,
  sorted,
  standing,
  success,
  umbrella,
} from "../../test/broker-world.ts";
import type { Broker } from "./broker.ts";

async function setup(
  options: BrokerWorldOptions = {},
): Promise<{ world: BrokerWorld; broker: Broker }> {
  const world = new BrokerWorld(options);
  return { world, broker: await world.open() };
}

/** Every key that the kv and what is not flushed yet hold, without the engine's own. */
async function keysLeft(broker: Broker): Promise<string[]> {
  const entries = await broker.store.engine.scan({ after: "codeq/", before: "codeq/~" }, 1e6);
  return entries.map(([key]) => key).filter((key) => !key.startsWith("codeq/meta/"));
}

test("D16: the same key twice before the commit makes one task, and both hear of it when it is durable", async () => {
  const { world, broker } = await setup();
  await enqueue(broker);
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  const first = broker.enqueue(newTask({ idempotencyKey: "k" }));
  const second = broker.enqueue(newTask({ idempotencyKey: "k", command: "WORK" }));
  assert.ok(first.ok && second.ok);
  assert.deepEqual([first.value.value.replayed, second.value.value.replayed], [false, true]);
  assert.equal(first.value.value.task.id, second.value.value.task.id);
  assert.equal(await standing(second.value.done), "pending");
  gate.resolve();
  await second.value.done;
  assert.equal(broker.counts(acme, "work").ready[0], 2);
});

test("D16: another tenant's key is another key", async () => {
  const { broker } = await setup();
  const mine = await enqueue(broker, { idempotencyKey: "k", payload: '"mine"' });
  const theirs = await enqueue(broker, { tenantId: umbrella, idempotencyKey: "k" });
  assert.notEqual(mine.id, theirs.id);
  assert.equal(await broker.get(umbrella, mine.id), undefined);
});

test("S15: a key with another payload or command is refused, and makes nothing", async () => {
  const { broker } = await setup();
  await enqueue(broker, { idempotencyKey: "k" });
  const refusal = { ok: false, code: "idempotency_key_reused" };
  assert.deepEqual(broker.enqueue(newTask({ idempotencyKey: "k", payloadHash: "x" })), refusal);
  assert.deepEqual(broker.enqueue(newTask({ idempotencyKey: "k", command: "x" })), refusal);
  assert.equal(broker.counts(acme, "work").ready[0], 1);
  assert.equal(broker.counts(acme, "x").ready[0], 0);
});

test("S15: a replay shows the task as it is now, through restarts, as long as the task lives", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker, { idempotencyKey: "k/ü ?" });
  await claim(broker);
  await world.clock.advance(3000);
  assert.ok(broker.heartbeat(owned(task), 60_000).ok);
  const replay = broker.enqueue(newTask({ idempotencyKey: "k/ü ?" }));
  assert.ok(replay.ok && replay.value.value.task.place.in === "leased");
  assert.equal(replay.value.value.task.place.untilMs, world.clock.nowMs() + 60_000);
  const finished = broker.submit(owned(task), success);
  assert.ok(finished.ok);
  await finished.value.done;
  const next = await world.reopen(broker);
  const late = next.enqueue(newTask({ idempotencyKey: "k/ü ?" }));
  assert.ok(late.ok && late.value.value.replayed);
  assert.equal(late.value.value.task.place.in, "done");
  await next.delete([late.value.value.task]);
  const anew = next.enqueue(newTask({ idempotencyKey: "k/ü ?" }));
  assert.ok(anew.ok && !anew.value.value.replayed);
});

test("an idempotency key of any text is taken, also one with half a surrogate pair", async () => {
  const { broker } = await setup();
  for (const idempotencyKey of ["\ud800", "../..", "a/b", "%2F", "~", " ", "é".repeat(256)]) {
    const task = await enqueue(broker, { idempotencyKey });
    const again = broker.enqueue(newTask({ idempotencyKey }));
    assert.ok(again.ok && again.value.value.replayed, idempotencyKey);
    assert.equal(again.value.value.task.id, task.id);
  }
});

test("an idempotency entry that cannot be read is kept aside, and the key can be used again", async () => {
  const { world, broker } = await setup();
  await enqueue(broker, { idempotencyKey: "k" });
  await broker.store.engine[Symbol.asyncDispose]();
  world.contents.set("codeq/idempo/acme/k", Buffer.from("[damaged"));
  const next = await world.open();
  const anew = next.enqueue(newTask({ idempotencyKey: "k" }));
  assert.ok(anew.ok && !anew.value.value.replayed);
  await next.store.engine[Symbol.asyncDispose]();
  assert.equal(world.contents.get("codeq/quarantine/codeq/idempo/acme/k")?.toString(), "[damaged");
});

test("D12: the end of a task and its result are one change: both are there after a crash, or none", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  const outcome = broker.submit(owned(task), {
    how: "completed",
    resultJson: '{"n":1}',
    error: "",
    artifacts: [{ name: "a.txt", url: "https://files/a.txt" }],
  });
  assert.ok(outcome.ok);
  const unfinished = await world.kill();
  assert.equal((await unfinished.get(acme, task.id))?.task.place.in, "leased");
  assert.equal(await unfinished.result(acme, task.id), undefined);
  const again = unfinished.submit(owned(task), success);
  assert.ok(again.ok && !again.value.value.repeated);
  await again.value.done;
  const finished = await world.kill();
  assert.equal((await finished.get(acme, task.id))?.task.place.in, "done");
  assert.equal((await finished.result(acme, task.id))?.resultJson, '{"ok":true}');
  assert.equal(finished.leases.size, 0);
  assert.deepEqual(sorted(countsInMemory(finished)), []);
});

test("S10: a repeated submit gets the stored record; another status or worker is refused", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  const first = broker.submit(owned(task), success);
  assert.ok(first.ok);
  const repeat = broker.submit(owned(task), { ...success, resultJson: '{"other":1}' });
  assert.ok(repeat.ok && repeat.value.value.repeated);
  assert.deepEqual(repeat.value.value.result, first.value.value.result);
  const refusal = { ok: false, code: "not_in_progress" };
  assert.deepEqual(broker.submit(owned(task), { ...success, how: "failed" }), refusal);
  assert.deepEqual(broker.submit(owned(task, "other" as WorkerId), success), refusal);
  await first.value.done;
  const next = await world.reopen(broker);
  const late = next.submit(owned(task), success);
  assert.ok(late.ok && late.value.value.repeated);
});

test("S10: a repeated submit hears of success only when the first one is durable", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  broker.submit(owned(task), success);
  await settle();
  const repeat = broker.submit(owned(task), success);
  assert.ok(repeat.ok);
  assert.equal(await standing(repeat.value.done), "pending");
  gate.resolve();
  await repeat.value.done;
});

test("S21: the tasks of another tenant are unknown, to every verb", async () => {
  const { broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  const foreign = { ...owned(task), tenantId: umbrella };
  const refusal = { ok: false, code: "task_unknown" };
  assert.deepEqual(broker.heartbeat(foreign, 1000), refusal);
  assert.deepEqual(broker.nack(foreign, { delaySeconds: 0, reason: "" }), refusal);
  assert.deepEqual(broker.abandon(foreign, { interrupted: false }), refusal);
  assert.deepEqual(broker.submit(foreign, success), refusal);
  assert.equal(await broker.get(umbrella, task.id), undefined);
  assert.equal(await broker.result(umbrella, task.id), undefined);
  assert.equal(await broker.get(acme, "unknown" as TaskId), undefined);
});

test("nobody is told of a task before it is durable", async () => {
  const { world, broker } = await setup();
  await enqueue(broker);
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  const outcome = broker.enqueue(newTask());
  assert.ok(outcome.ok);
  await settle();
  const read = broker.get(acme, outcome.value.value.task.id);
  assert.equal(await standing(read), "pending");
  gate.resolve();
  assert.equal((await read)?.task.place.in, "ready");
});

test("who waits for a result is woken by it, by nothing else, and after it is durable", async () => {
  const { world, broker } = await setup();
  const [task, other] = [await enqueue(broker), await enqueue(broker)];
  await claim(broker, { count: 2 });
  const waiting = broker.results.wait(task.id, { waitMs: 1000, signal: undefined });
  const another = broker.results.wait(task.id, { waitMs: 1000, signal: undefined });
  const aborted = broker.results.wait(task.id, { waitMs: 1000, signal: AbortSignal.abort() });
  await aborted;
  broker.submit(owned(other), success);
  assert.equal(await standing(waiting), "pending");
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  broker.submit(owned(task), success);
  assert.equal(await standing(waiting), "pending");
  gate.resolve();
  await Promise.all([waiting, another]);
  assert.equal((await broker.result(acme, task.id))?.status, "COMPLETED");
  assert.deepEqual([broker.results.size, world.clock.timers], [0, 0]);
});

test("a wait for a result ends when its time is up, at a shutdown, and with the burial of the task", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker, { maxAttempts: 1 });
  const timed = broker.results.wait(task.id, { waitMs: 500, signal: undefined });
  await world.clock.advance(500);
  await timed;
  const buried = broker.results.wait(task.id, { waitMs: 500, signal: undefined });
  await claim(broker);
  broker.nack(owned(task), { delaySeconds: 0, reason: "broken" });
  await buried;
  assert.equal((await broker.result(acme, task.id))?.error, "broken");
  const stopped = broker.results.wait(task.id, { waitMs: 500, signal: undefined });
  broker.stopWaiting();
  await stopped;
  assert.equal(broker.results.size, 0);
});

test("a deleted task leaves nothing behind, whatever it went through", async () => {
  const { broker } = await setup();
  const done = await enqueue(broker, { idempotencyKey: "k" });
  const dead = await enqueue(broker, { maxAttempts: 1, priority: 0 });
  await claim(broker, { count: 2 });
  broker.submit(owned(done), success);
  broker.nack(owned(dead), { delaySeconds: 0, reason: "" });
  await settle();
  assert.equal(broker.counts(acme, "work").dead, 1);
  const tasks = [await broker.get(acme, done.id), await broker.get(acme, dead.id)];
  await broker.store.engine.flushNow();
  await broker.delete(tasks.map((each) => each!.task));
  assert.equal(broker.counts(acme, "work").dead, 0);
  await broker.store.engine.flushNow();
  assert.deepEqual(await keysLeft(broker), []);
});

test("a task that is not terminal is not deleted", async () => {
  const { world, broker } = await setup();
  const ready = await enqueue(broker);
  const delayed = await enqueue(broker, { visibleMs: world.clock.nowMs() + 1000 });
  await enqueue(broker, { command: "other" });
  const [leased] = await claim(broker, { commands: ["other"] });
  await broker.delete([ready, delayed, leased!.task]);
  assert.deepEqual(await claimIds(broker), [ready.id]);
  assert.equal(broker.counts(acme, "work").delayed, 1);
});

test("a task that is asked to be deleted twice is deleted once", async () => {
  const { broker } = await setup();
  for (let n = 0; n < 2; n += 1) {
    const task = await enqueue(broker, { maxAttempts: 1 });
    await claim(broker);
    broker.nack(owned(task), { delaySeconds: 0, reason: "" });
  }
  await settle();
  const entries = await broker.store.engine.scan({ after: "codeq/ttl/", before: "codeq/ttl/~" }, 9);
  const id = entries[0]![0].slice(-36) as TaskId;
  const dead = await broker.get(acme, id);
  await Promise.all([broker.delete([dead!.task, dead!.task]), broker.delete([dead!.task])]);
  assert.equal(broker.counts(acme, "work").dead, 1);
  assert.deepEqual(sorted(countsInMemory(broker)), sorted(await countedKeys(broker.store.engine)));
});

test("sequence numbers never go back, so order survives restarts of a queue that was empty", async () => {
  const { world, broker } = await setup();
  for (let n = 0; n < 5; n += 1) await enqueue(broker);
  await claim(broker, { count: 5 });
  const next = await world.reopen(broker);
  const [first, second] = [await enqueue(next), await enqueue(next)];
  const last = await world.kill();
  const third = await enqueue(last);
  assert.deepEqual(await claimIds(last, { count: 5 }), [first.id, second.id, third.id]);
});
