/** What a batch does with few states in memory and small pieces of background work, step by step. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { BatchState, TaskExtras, TaskId } from "@codeq/queue";
import {
  acme,
  BrokerWorld,
  claim,
  enqueue,
  entriesUnder,
  owned,
  submit,
  success,
} from "../../../test/broker-world.ts";
import type { ShardBroker } from "./shard-broker.ts";

const ttl: TaskExtras = { tags: [], timeoutMs: 0, ttlMs: 1000, startByMs: 0 };

async function setup(): Promise<{ world: BrokerWorld; broker: ShardBroker }> {
  const world = new BrokerWorld();
  const broker = await world.open();
  broker.batches.cachedMax = 2;
  broker.batches.pieceMembers = 2;
  return { world, broker };
}

async function put(broker: ShardBroker, id = "b"): Promise<TaskId> {
  const callback = { command: "report", payload: "{}", priority: 0, webhook: "", maxAttempts: 1 };
  const times = { timeoutSeconds: 0, ttlSeconds: 0, openSeconds: 3600 };
  const options = { ...callback, ...times, tags: [], on: "end", failFast: false } as const;
  const answer = await broker.batches.put({ tenantId: acme, id }, options);
  assert.ok(answer.ok);
  return answer.batch.callbackId as TaskId;
}

async function addMembers(broker: ShardBroker, count: number, batchId = "b"): Promise<TaskId[]> {
  const fields = { batchId, maxAttempts: 1, extras: ttl };
  const tasks = Array.from({ length: count }, () => enqueue(broker, fields));
  return (await Promise.all(tasks)).map(({ id }) => id);
}

function state(broker: ShardBroker, id = "b"): BatchState | undefined {
  return broker.store.batch({ tenantId: acme, id })?.state;
}

const seal = (broker: ShardBroker, id = "b") => broker.batches.seal({ tenantId: acme, id });
const cancel = (broker: ShardBroker) => broker.batches.cancel({ tenantId: acme, id: "b" });
const work = (broker: ShardBroker) => broker.batches.work({ tenantId: acme, id: "b" });
const act = (broker: ShardBroker, id: TaskId, kind: "delete" | "replay") =>
  broker.act({ tenantId: acme, id }, { kind });

async function left(broker: ShardBroker): Promise<string[]> {
  const keys: string[] = [];
  for (const prefix of ["codeq/batch", "codeq/tasks/"]) {
    for (const [key] of await entriesUnder(broker.store, prefix)) keys.push(key);
  }
  return keys;
}

test("members of more batches than memory has states of end together, and each is counted", async () => {
  const { world, broker } = await setup();
  const ids = ["b0", "b1", "b2", "b3"];
  for (const id of ids) await put(broker, id);
  const members: TaskId[] = [];
  // One of each batch, and then another one of each.
  for (const id of [...ids, ...ids]) members.push(...(await addMembers(broker, 1, id)));
  for (const id of ids) await seal(broker, id);
  await world.clock.advance(2000);
  await broker.lapse(members);
  const phases = ids.map((id) => [state(broker, id)?.pending, state(broker, id)?.phase]);
  assert.deepEqual(phases, Array(4).fill([0, "released"]));
});

test("members are cancelled although the callback is deleted before that, and then all is deleted", async () => {
  const { broker } = await setup();
  const callbackId = await put(broker);
  const members = await addMembers(broker, 5);
  await cancel(broker);
  await work(broker);
  assert.equal(state(broker)?.cancelled, 2);
  assert.equal((await act(broker, callbackId, "delete")).ok, true);
  await work(broker);
  await work(broker);
  assert.equal(state(broker)?.cancelled, 5, "none is left to run");
  for (const id of members) assert.equal(broker.store.task(id)?.place.in, "done");
  for (let piece = 0; piece < 4; piece++) await work(broker);
  assert.deepEqual(await left(broker), []);
});

test("a member that is replayed while its batch is deleted is deleted after its end", async () => {
  const { world, broker } = await setup();
  const callbackId = await put(broker);
  const members = await addMembers(broker, 3);
  await seal(broker);
  await world.clock.advance(2000);
  await broker.lapse(members);
  const [callback] = await claim(broker, { commands: ["report"] });
  assert.equal(callback?.task.id, callbackId);
  await submit(broker, owned({ id: callbackId, tenantId: acme }), success).done;
  await act(broker, callbackId, "delete");
  await work(broker);
  const last = members.find((id) => broker.store.task(id) !== undefined) as TaskId;
  // The piece of work has begun to read which members are left.
  const piece = work(broker);
  const replayed = act(broker, last, "replay");
  await Promise.all([piece, replayed]);
  assert.equal(state(broker)?.pending, 1);
  await claim(broker);
  await submit(broker, owned({ id: last, tenantId: acme }), success).done;
  for (let piece = 0; piece < 2; piece++) await work(broker);
  assert.deepEqual(await left(broker), []);
});

test("a seal is refused because of a cancel only when no crash can undo the cancel", async () => {
  const { world, broker } = await setup();
  await put(broker);
  const cancelled = cancel(broker);
  assert.deepEqual(await seal(broker), { ok: false, code: "batch_over" });
  const again = await world.kill();
  assert.equal(state(again)?.phase, "cancelled");
  await Promise.allSettled([cancelled]);
});
