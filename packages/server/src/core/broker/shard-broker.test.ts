import assert from "node:assert/strict";
import { test } from "node:test";
import { limits } from "@codeq/protocol";
import type { TaskId, WorkerId } from "@codeq/queue";
import { sealed, textOf } from "../../../../engine/test/sealed.ts";
import { settle } from "../../../../simulated/src/index.ts";
import {
  abandon,
  acme,
  BrokerWorld,
  type BrokerWorldOptions,
  claim,
  claimIds,
  completed,
  countedKeys,
  countsInMemory,
  create,
  enqueue,
  enqueueNow,
  entriesUnder,
  heartbeat,
  nack,
  owned,
  sorted,
  standing,
  submit,
  success,
  umbrella,
} from "../../../test/broker-world.ts";
import { resultKey, taskKey } from "../store/keys.ts";
import { forgetOldKeys } from "../sweeps/sweeps.ts";
import type { ShardBroker } from "./shard-broker.ts";

async function setup(
  options: BrokerWorldOptions = {},
): Promise<{ world: BrokerWorld; broker: ShardBroker }> {
  const world = new BrokerWorld(options);
  return { world, broker: await world.open() };
}

/** Every key that the kv and what is not flushed yet hold, without the engine's own. */
async function keysLeft(broker: ShardBroker): Promise<string[]> {
  const entries = await entriesUnder(broker.store, "codeq/");
  return entries.map(([key]) => key).filter((key) => !key.startsWith("codeq/meta/"));
}

test("D16: the same key twice before the commit makes one task, and both hear of it when it is durable", async () => {
  const { world, broker } = await setup();
  await enqueue(broker);
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  const first = create(broker, { idempotencyKey: "k" });
  const second = create(broker, { idempotencyKey: "k", command: "WORK" });
  assert.equal(await standing(second.done), "pending");
  assert.equal(await standing(first.done), "pending");
  gate.resolve();
  const answers = await Promise.all([first.done, second.done]);
  assert.deepEqual(
    answers.map(({ replayed }) => replayed),
    [false, true],
  );
  assert.equal(answers[0].task.id, answers[1].task.id);
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
  const code = "idempotency_key_reused";
  assert.equal(create(broker, { idempotencyKey: "k", payloadHash: "x" }).code, code);
  assert.equal(create(broker, { idempotencyKey: "k", command: "x" }).code, code);
  assert.equal(broker.counts(acme, "work").ready[0], 1);
  assert.equal(broker.counts(acme, "x").ready[0], 0);
});

test("S15: a replay shows the task as it is now, through restarts, as long as the task lives", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker, { idempotencyKey: "k/ü ?" });
  await claim(broker);
  await world.clock.advance(3000);
  assert.ok(!heartbeat(broker, owned(task), 60_000).isRefused);
  const replay = await create(broker, { idempotencyKey: "k/ü ?" }).done;
  assert.ok(replay.replayed && replay.task.place.in === "leased");
  assert.equal(replay.task.place.untilMs, world.clock.nowMs() + 60_000);
  await submit(broker, owned(task), success).done;
  const next = await world.reopen(broker);
  const late = await create(next, { idempotencyKey: "k/ü ?" }).done;
  assert.ok(late.replayed);
  assert.equal(late.task.place.in, "done");
  await next.delete([late.task]);
  assert.ok(!(await create(next, { idempotencyKey: "k/ü ?" }).done).replayed);
});

test("a key outlives its task, and goes when its time is over, unless a new task has it", async () => {
  const world = new BrokerWorld({ keyLifeMs: 10_000_000 });
  const broker = await world.open();
  const config = { sweepBatchMax: 10, retentionSweepSeconds: 60 };
  const keys = ["a", "b", "auto:1"].map((idempotencyKey) => ({ idempotencyKey }));
  const ids = [];
  for (const fields of keys) ids.push((await enqueue(broker, fields)).id);
  for (const id of ids) await broker.act({ tenantId: acme, id }, { kind: "cancel", graceMs: 0 });
  for (const id of ids) await broker.act({ tenantId: acme, id }, { kind: "delete" });
  const again = await create(broker, keys[0]).done;
  assert.deepEqual([again.replayed, again.task.id, again.task.place.in], [true, ids[0], "done"]);
  assert.equal(create(broker, { ...keys[0], payloadHash: "x" }).code, "idempotency_key_reused");
  const first = await create(broker, { ...keys[0], payloadHash: "x", keepsFirst: true }).done;
  assert.equal(first.task.id, ids[0]);
  // A key that a client made for one call goes with its task.
  assert.equal((await create(broker, keys[2]).done).replayed, false);
  const reopened = await world.reopen(broker);
  assert.equal((await create(reopened, keys[0]).done).task.id, ids[0]);
  await world.clock.advance(10_000_000);
  const fresh = await enqueue(reopened, keys[1]);
  assert.equal(ids.includes(fresh.id), false);
  const left = (): Promise<unknown[]> =>
    reopened.store.dueAfter("keptKeys", {
      after: undefined,
      untilMs: Number.POSITIVE_INFINITY,
      limit: 9,
    });
  assert.equal((await left()).length, 2);
  await forgetOldKeys({ broker: reopened, clock: world.clock, config }).runOnce();
  assert.equal((await left()).length, 0);
  assert.equal(reopened.store.idempotency(acme, "a"), undefined);
  assert.equal((await create(reopened, keys[1]).done).task.id, fresh.id);
});

test("an idempotency key of any text is taken, also one with half a surrogate pair", async () => {
  const { broker } = await setup();
  for (const idempotencyKey of ["\ud800", "../../..", "a/b", "%2F", "~", " ", "é".repeat(256)]) {
    const task = await enqueue(broker, { idempotencyKey });
    const again = await create(broker, { idempotencyKey }).done;
    assert.ok(again.replayed, idempotencyKey);
    assert.equal(again.task.id, task.id);
  }
});

test("an idempotency entry that cannot be read is kept aside, and the key can be used again", async () => {
  const { world, broker } = await setup();
  await enqueue(broker, { idempotencyKey: "k" });
  await broker.store[Symbol.asyncDispose]();
  const key = "codeq/idempo/acme/k";
  world.contents.set(key, sealed(key, "[damaged"));
  const next = await world.open();
  assert.ok(!(await create(next, { idempotencyKey: "k" }).done).replayed);
  await next.store[Symbol.asyncDispose]();
  assert.equal(textOf(world.contents, `codeq/quarantine/${key}`), "[damaged");
});

test("what a request that is made again needs and is damaged on the disk is refused, not done anew", async () => {
  const { world, broker } = await setup();
  const [entry, record] = ["codeq/idempo/acme/k", "codeq/idempo/acme/l"];
  await enqueue(broker, { idempotencyKey: "k" });
  const task = await enqueue(broker, { idempotencyKey: "l" });
  const done = await enqueue(broker, { command: "other" });
  await claim(broker, { commands: ["other"] });
  await submit(broker, owned(done), completed(`"${"x".repeat(2000)}"`)).done;
  await broker.store[Symbol.asyncDispose]();
  const keys = [entry, taskKey(task.id), resultKey(done.id)];
  for (const key of keys) world.contents.get(key)![0]! ^= 1;
  const next = await world.open();
  await assert.rejects(create(next, { idempotencyKey: "k" }).done, { code: "corrupt" });
  await assert.rejects(create(next, { idempotencyKey: "l" }).done, { code: "corrupt" });
  const again = submit(next, owned(done), completed(`"${"x".repeat(2000)}"`));
  await assert.rejects(again.done, { code: "corrupt" });
  assert.equal(next.counts(acme, "work").ready[0], 2);
  await next.store[Symbol.asyncDispose]();
  for (const key of keys) assert.ok(world.contents.has(`codeq/quarantine/${key}`), key);
  assert.ok(world.contents.has(record));
});

test("D12: the end of a task and its result are one change: both are there after a crash, or none", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  const artifacts = [{ name: "a.txt", url: "https://files/a.txt" }];
  const lost = submit(broker, owned(task), completed('{"n":1}', artifacts));
  assert.ok(!lost.isRefused);
  const unfinished = await world.kill();
  assert.equal((await unfinished.get(acme, task.id))?.task.place.in, "leased");
  assert.equal(await unfinished.result(acme, task.id), undefined);
  assert.ok(!(await submit(unfinished, owned(task), success).done).repeated);
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
  const first = submit(broker, owned(task), success);
  const repeat = submit(broker, owned(task), completed('{"other":1}'));
  const code = "not_in_progress";
  assert.equal(submit(broker, owned(task), { ...success, how: "failed" }).code, code);
  assert.equal(submit(broker, owned(task, "other" as WorkerId), success).code, code);
  const { result } = await first.done;
  assert.equal(result.resultJson, '{"ok":true}');
  const repeated = await repeat.done;
  assert.ok(repeated.repeated);
  assert.deepEqual(repeated.result, result);
  const next = await world.reopen(broker);
  const late = await submit(next, owned(task), success).done;
  assert.ok(late.repeated);
  assert.deepEqual(late.result, result);
});

test("S10: a repeated submit hears of success only when the first one is durable", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  submit(broker, owned(task), success);
  await settle();
  const repeat = submit(broker, owned(task), success);
  assert.equal(await standing(repeat.done), "pending");
  gate.resolve();
  assert.ok((await repeat.done).repeated);
});

test("a cancel is refused because of a result only when no crash can undo the result", async () => {
  const world = new BrokerWorld();
  const broker = await world.open();
  const { id } = await enqueue(broker);
  await claim(broker);
  const completed = submit(broker, owned({ id, tenantId: acme }), success).done;
  assert.equal(
    (await broker.act({ tenantId: acme, id }, { kind: "cancel", graceMs: 0 })).ok,
    false,
  );
  const again = await world.kill();
  assert.equal(again.store.task(id)?.place.in, "done");
  await Promise.allSettled([completed]);
});

test("S21: the tasks of another tenant are unknown, to every verb", async () => {
  const { broker } = await setup();
  const task = await enqueue(broker);
  await claim(broker);
  const foreign = { ...owned(task), tenantId: umbrella };
  const code = "task_unknown";
  assert.equal(heartbeat(broker, foreign, 1000).code, code);
  assert.equal(nack(broker, foreign, { delaySeconds: 0, reason: "" }).code, code);
  assert.equal(abandon(broker, foreign, { interrupted: false }).code, code);
  assert.equal(submit(broker, foreign, success).code, code);
  assert.equal(broker.mayFinish(foreign, "completed"), code);
  assert.equal(await broker.get(umbrella, task.id), undefined);
  assert.equal(await broker.result(umbrella, task.id), undefined);
  assert.equal(await broker.get(acme, "unknown" as TaskId), undefined);
});

test("nobody is told of a task before it is durable", async () => {
  const { world, broker } = await setup();
  await enqueue(broker);
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  const task = enqueueNow(broker);
  await settle();
  const read = broker.get(acme, task.id);
  assert.equal(await standing(read), "pending");
  gate.resolve();
  assert.equal((await read)?.task.place.in, "ready");
});

test("who waits for a result is woken by it, by nothing else, and after it is durable", async () => {
  const { world, broker } = await setup();
  const [task, other] = [await enqueue(broker), await enqueue(broker)];
  await claim(broker, { count: 2 });
  const waiting = broker.results.wait(task, { waitMs: 1000, signal: undefined });
  const another = broker.results.wait(task, { waitMs: 1000, signal: undefined });
  const aborted = broker.results.wait(task, { waitMs: 1000, signal: AbortSignal.abort() });
  await aborted;
  submit(broker, owned(other), success);
  assert.equal(await standing(waiting), "pending");
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  submit(broker, owned(task), success);
  assert.equal(await standing(waiting), "pending");
  gate.resolve();
  await Promise.all([waiting, another]);
  assert.equal((await broker.result(acme, task.id))?.status, "COMPLETED");
  assert.deepEqual([broker.results.size, world.clock.timers], [0, 0]);
});

test("a wait for a result ends when its time is up, at a shutdown, and with the burial of the task", async () => {
  const { world, broker } = await setup();
  const task = await enqueue(broker, { maxAttempts: 1 });
  const timed = broker.results.wait(task, { waitMs: 500, signal: undefined });
  await world.clock.advance(500);
  await timed;
  const buried = broker.results.wait(task, { waitMs: 500, signal: undefined });
  await claim(broker);
  nack(broker, owned(task), { delaySeconds: 0, reason: "broken" });
  await buried;
  assert.equal((await broker.result(acme, task.id))?.error, "broken");
  const stopped = broker.results.wait(task, { waitMs: 500, signal: undefined });
  broker.stopWaiting();
  await stopped;
  assert.equal(broker.results.size, 0);
});

test("one tenant has at most half of the waits for results, and is told when it wants more", async () => {
  const { broker } = await setup();
  const [mine, theirs] = [await enqueue(broker), await enqueue(broker, { tenantId: umbrella })];
  const wait = { waitMs: 1000, signal: undefined };
  for (let waits = 0; waits < limits.waitersMax / 2; waits += 1)
    void broker.results.wait(mine, wait);
  const refused = broker.awaitResult(acme, mine.id, wait);
  assert.equal(await standing(refused), "done");
  assert.equal(await refused, "crowded");
  const other = broker.awaitResult(umbrella, theirs.id, wait);
  assert.equal(await standing(other), "pending");
  await claim(broker);
  submit(broker, owned(mine), success);
  assert.equal(await broker.awaitResult(acme, mine.id, wait), "waited", "its result is there");
  broker.stopWaiting();
  assert.equal(await other, "waited");
});

test("a deleted task leaves nothing behind, whatever it went through", async () => {
  const { broker } = await setup();
  const done = await enqueue(broker, { idempotencyKey: "k" });
  const dead = await enqueue(broker, { maxAttempts: 1, priority: 0 });
  await claim(broker, { count: 2 });
  submit(broker, owned(done), success);
  nack(broker, owned(dead), { delaySeconds: 0, reason: "" });
  await settle();
  assert.equal(broker.counts(acme, "work").dead, 1);
  const tasks = [await broker.get(acme, done.id), await broker.get(acme, dead.id)];
  await broker.store.flushNow();
  await broker.delete(tasks.map((each) => each!.task));
  assert.equal(broker.counts(acme, "work").dead, 0);
  await broker.store.flushNow();
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
    nack(broker, owned(task), { delaySeconds: 0, reason: "" });
  }
  await settle();
  const entries = await entriesUnder(broker.store, "codeq/ttl/");
  const id = entries[0]![0].slice(-36) as TaskId;
  const dead = await broker.get(acme, id);
  await Promise.all([broker.delete([dead!.task, dead!.task]), broker.delete([dead!.task])]);
  assert.equal(broker.counts(acme, "work").dead, 1);
  assert.deepEqual(sorted(countsInMemory(broker)), sorted(await countedKeys(broker.store)));
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
