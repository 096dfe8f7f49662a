import assert from "node:assert/strict";
import { test } from "node:test";
import type { TaskId, TenantId } from "@codeq/queue";
import { acme, BrokerWorld, claim, enqueue, owned, success } from "../../test/broker-world.ts";
import { payloadKey, resultKey, taskKey } from "./keys.ts";
import { QueueStore } from "./queue-store.ts";

const longJson = JSON.stringify({ text: "x".repeat(600) });

/** A store with finished tasks and a ready one, flushed, and a way to spoil what it has. */
async function setup(): Promise<{
  world: BrokerWorld;
  ready: TaskId;
  done: TaskId;
  /** Finished as well; payload and result are long. */
  long: TaskId;
  open: () => Promise<QueueStore>;
}> {
  const world = new BrokerWorld();
  const broker = await world.open();
  const done = await enqueue(broker, { payload: '{"a":1}' });
  await claim(broker);
  assert.ok(broker.submit(owned(done), success).ok);
  const long = await enqueue(broker, { payload: longJson });
  await claim(broker);
  assert.ok(broker.submit(owned(long), { ...success, resultJson: longJson }).ok);
  const ready = await enqueue(broker, { idempotencyKey: "k" });
  await broker.store.engine[Symbol.asyncDispose]();
  const open = async (): Promise<QueueStore> => new QueueStore(await world.openEngine());
  return { world, ready: ready.id, done: done.id, long: long.id, open };
}

test("tasks, payloads, results and idempotency entries are found by their ids", async () => {
  const { ready, done, open } = await setup();
  const store = await open();
  assert.equal(store.task(ready)?.place.in, "ready");
  assert.equal(store.payload(store.task(done)!), '{"a":1}');
  assert.equal(store.result(done)?.status, "COMPLETED");
  assert.equal(store.result(ready), undefined);
  assert.equal(store.idempotency(acme, "k")?.taskId, ready);
  assert.equal(store.idempotency("other" as TenantId, "k"), undefined);
  assert.equal(store.task("unknown" as TaskId), undefined);
  assert.equal(store.quarantined, 0);
});

test("what cannot be read is counted, copied aside once and left where it is", async () => {
  const { world, ready, long, open } = await setup();
  world.contents.set(taskKey(ready), Buffer.from("\u0000bad"));
  world.contents.set(resultKey(long), Buffer.from("[1]"));
  const store = await open();
  assert.equal(store.task(ready), undefined);
  assert.equal(store.task(ready), undefined);
  assert.equal(store.result(long), undefined);
  assert.equal(store.quarantined, 3);
  await store.engine[Symbol.asyncDispose]();
  assert.equal(world.contents.get(taskKey(ready))?.toString(), "\u0000bad");
  assert.equal(world.contents.get(`codeq/quarantine/${taskKey(ready)}`)?.toString(), "\u0000bad");
  assert.equal(world.contents.get(`codeq/quarantine/${resultKey(long)}`)?.toString(), "[1]");
});

test("reading what cannot be read does not need a store that can be written", async () => {
  const { world, ready, open } = await setup();
  world.contents.set(taskKey(ready), Buffer.from("bad"));
  const store = await open();
  await store.engine[Symbol.asyncDispose]();
  assert.equal(store.task(ready), undefined);
  assert.equal(store.quarantined, 1);
});

test("a task that is kept is the newest one, until it is forgotten", async () => {
  const { ready, open } = await setup();
  const store = await open();
  const task = store.task(ready)!;
  store.keep({ ...task, attempts: 7 });
  assert.equal(store.task(ready)?.attempts, 7);
  store.forget(ready);
  assert.equal(store.task(ready)?.attempts, 0);
  store.keep({ ...task, attempts: 8 });
  store.forgetAll();
  assert.equal(store.task(ready)?.attempts, 0);
});

test("of the tasks that are kept, the last ones stay, in their newest form", async () => {
  const { ready, open } = await setup();
  const store = await open();
  const task = store.task(ready)!;
  store.keep({ ...task, attempts: 1 });
  for (let n = 0; n < 20_000; n += 1) store.keep({ ...task, id: `t${n}` as TaskId });
  store.keep({ ...task, attempts: 2 });
  for (let n = 0; n < 10_000; n += 1) store.keep({ ...task, id: `u${n}` as TaskId });
  assert.equal(store.task(ready)?.attempts, 2);
  for (let n = 0; n < 40_000; n += 1) store.keep({ ...task, id: `v${n}` as TaskId });
  assert.equal(store.task(ready)?.attempts, 0);
});

test("a payload that is missing reads as null, the JSON for nothing", async () => {
  const { world, long, open } = await setup();
  world.contents.delete(payloadKey(long));
  const store = await open();
  assert.equal(store.payload(store.task(long)!), "null");
});

test("what is short travels with the task, what is long has a key of its own", async () => {
  const { world, done, long, open } = await setup();
  assert.equal(world.contents.get(payloadKey(done)), undefined);
  assert.equal(world.contents.get(resultKey(done)), undefined);
  assert.equal(world.contents.get(payloadKey(long))?.toString(), longJson);
  const store = await open();
  assert.equal(store.payload(store.task(long)!), longJson);
  assert.equal(store.result(long)?.resultJson, longJson);
  assert.equal(store.result(done)?.resultJson, success.resultJson);
});
