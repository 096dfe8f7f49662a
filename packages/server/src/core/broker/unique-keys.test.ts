import assert from "node:assert/strict";
import { test } from "node:test";
import type { Task, UniqueRequest } from "@codeq/queue";
import {
  acme,
  BrokerWorld,
  claim,
  create,
  enqueue,
  entriesUnder,
  nack,
  owned,
  submit,
  success,
} from "../../../test/broker-world.ts";
import { forgetOldKeys } from "../sweeps/sweeps.ts";
import type { ShardBroker } from "./shard-broker.ts";
import type { Enqueued } from "./verbs.ts";

async function setup(): Promise<{ world: BrokerWorld; broker: ShardBroker }> {
  const world = new BrokerWorld();
  return { world, broker: await world.open() };
}

function unique(on: UniqueRequest["on"], over: Partial<UniqueRequest> = {}): UniqueRequest {
  return { key: "k", while: "unfinished", on, forMs: 0, maxWaitMs: 0, ...over };
}

function send(broker: ShardBroker, on: UniqueRequest, payload = "{}"): Promise<Enqueued> {
  return create(broker, { unique: on, payload }).done;
}

async function entries(broker: ShardBroker): Promise<number> {
  return (await entriesUnder(broker.store, "codeq/unique/")).length;
}

const place = (broker: ShardBroker, { id }: Task): string | undefined =>
  broker.store.task(id)?.place.in;

test("a second request gets the task of the first one until that has ended", async () => {
  const { broker } = await setup();
  const first = await send(broker, unique("return"));
  const again = await send(broker, unique("return"), "[2]");
  assert.deepEqual([again.task.id, again.deduplicated], [first.task.id, true]);
  assert.equal(create(broker, { unique: unique("refuse") }).code, "unique_key_held");
  const other = await create(broker, { command: "other", unique: unique("return") }).done;
  assert.equal(other.deduplicated, false);
  await claim(broker, { commands: ["work"] });
  assert.equal((await send(broker, unique("return"))).task.id, first.task.id);
  await submit(broker, owned(first.task), success).done;
  assert.equal(await entries(broker), 1);
  assert.notEqual((await send(broker, unique("return"))).task.id, first.task.id);
});

test("a key that is held while its task waits is free when a worker begins the task", async () => {
  const { broker } = await setup();
  const during = unique("return", { while: "waiting" });
  const first = await send(broker, during);
  await claim(broker);
  assert.equal(await entries(broker), 0);
  const second = await send(broker, during);
  assert.notEqual(second.task.id, first.task.id);
  await nack(broker, owned(first.task), { delaySeconds: 0, reason: "" }).done;
  assert.equal((await send(broker, during)).task.id, second.task.id);
});

test("with latest one task runs, one waits for its end, and the last payload wins", async () => {
  const { world, broker } = await setup();
  const first = await send(broker, unique("latest"), "[1]");
  assert.equal((await send(broker, unique("latest"), "[2]")).task.id, first.task.id);
  assert.equal(broker.store.task(first.task.id)?.payload, "[2]");
  await claim(broker);
  const next = await send(broker, unique("latest"), "[3]");
  assert.notEqual(next.task.id, first.task.id);
  const last = await send(broker, unique("latest"), "[4]");
  assert.deepEqual([last.task.id, last.deduplicated], [next.task.id, true]);
  assert.deepEqual(await claim(broker), []);
  const edit = { kind: "edit", edit: { dueMs: 1 } } as const;
  const refused = await broker.act({ tenantId: acme, id: next.task.id }, edit);
  assert.equal(!refused.ok && refused.code, "unique_key_held");
  const crashed = await world.kill();
  await submit(crashed, owned(first.task), success).done;
  assert.equal(place(crashed, next.task), "ready");
  const [claimed] = await claim(crashed);
  assert.deepEqual([claimed?.task.id, claimed?.payload], [next.task.id, "[4]"]);
  await submit(crashed, owned(next.task), success).done;
  assert.equal(await entries(crashed), 0);
});

test("with cancel the running task is cancelled and the new one released when it has ended", async () => {
  const { world, broker } = await setup();
  const first = await send(broker, unique("cancel"), "[1]");
  const second = await send(broker, unique("cancel"), "[2]");
  assert.equal(place(broker, first.task), "done");
  await claim(broker);
  const third = await send(broker, unique("cancel"), "[3]");
  assert.ok((broker.store.task(second.task.id)?.cancelMs ?? 0) > 0);
  assert.equal(place(broker, third.task), "delayed");
  await world.clock.advance(600_000);
  broker.expire(second.task.id);
  assert.equal(place(broker, second.task), "done");
  assert.equal(place(broker, third.task), "ready");
});

test("replace moves the time of a waiting task, at most as far as the first request allows", async () => {
  const { world, broker } = await setup();
  const nowMs = world.clock.nowMs();
  const debounce = unique("replace", { maxWaitMs: 5000 });
  const at = (ms: number, payload: string): Promise<Enqueued> =>
    create(broker, { unique: debounce, payload, visibleMs: nowMs + ms }).done;
  const { task } = await at(3000, "[1]");
  await at(4000, "[2]");
  assert.deepEqual(broker.store.task(task.id)?.place, { in: "delayed", dueMs: nowMs + 4000 });
  await at(9000, "[3]");
  assert.deepEqual(broker.store.task(task.id)?.place, { in: "delayed", dueMs: nowMs + 5000 });
  assert.equal(broker.store.task(task.id)?.unique?.replaced, 2);
});

test("a throttled key is held until its time is over, also when its task has ended", async () => {
  const { world, broker } = await setup();
  const throttle = unique("return", { forMs: 60_000 });
  const { task } = await send(broker, throttle);
  await claim(broker);
  await submit(broker, owned(task), success).done;
  assert.equal((await send(broker, throttle)).task.id, task.id);
  const trailing = await send(broker, unique("latest", { forMs: 60_000 }), "[2]");
  assert.equal(place(broker, trailing.task), "delayed");
  await broker.act({ tenantId: acme, id: trailing.task.id }, { kind: "cancel", graceMs: 0 });
  await world.clock.advance(120_000);
  assert.equal(await entries(broker), 1);
  const config = { sweepBatchMax: 10, retentionSweepSeconds: 60 };
  await forgetOldKeys({ broker, clock: world.clock, config }).runOnce();
  assert.equal(await entries(broker), 0);
});

test("whatever ends a task gives its key back", async () => {
  const { world, broker } = await setup();
  const startMs = world.clock.nowMs();
  const ends: readonly ((task: Task) => unknown)[] = [
    ({ id }) => broker.act({ tenantId: acme, id }, { kind: "cancel", graceMs: 0 }),
    ({ id }) => broker.act({ tenantId: acme, id }, { kind: "edit", edit: { command: "moved" } }),
    ({ id }) => broker.lapse([id]),
    async (task) => {
      for (let tries = 0; tries < task.maxAttempts; tries += 1) {
        await claim(broker, { commands: ["work"] });
        await nack(broker, owned(task), { delaySeconds: 0, reason: "" }).done;
        await world.clock.advance(60_000);
        await broker.promote([{ id: task.id, number: dueOf(broker, task) }]);
      }
    },
  ];
  for (const end of ends) {
    const extras = { tags: [], timeoutMs: 0, ttlMs: end === ends[2] ? 1 : 0, startByMs: 0 };
    const { task } = await create(broker, { unique: unique("return"), extras }).done;
    if (end === ends[2]) await world.clock.advance(10);
    assert.equal(await entries(broker), 1);
    await end(task);
    assert.equal(await entries(broker), 0, String(end));
  }
  assert.ok(world.clock.nowMs() > startMs);
});

test("a dead letter that is replayed takes its key again, unless another task has it", async () => {
  const { broker } = await setup();
  const first = await create(broker, { unique: unique("return"), maxAttempts: 1 }).done;
  await claim(broker);
  await nack(broker, owned(first.task), { delaySeconds: 0, reason: "" }).done;
  const second = await send(broker, unique("return"));
  const of = { tenantId: acme, id: first.task.id };
  const refused = await broker.act(of, { kind: "replay" });
  assert.equal(!refused.ok && refused.code, "unique_key_held");
  await broker.act({ ...of, id: second.task.id }, { kind: "cancel", graceMs: 0 });
  assert.ok((await broker.act(of, { kind: "replay" })).ok);
  assert.equal((await send(broker, unique("return"))).task.id, first.task.id);
});

test("a plain task writes no entry", async () => {
  const { broker } = await setup();
  await enqueue(broker);
  assert.equal(await entries(broker), 0);
});

function dueOf(broker: ShardBroker, { id }: Task): number {
  const at = broker.store.task(id)?.place;
  return at?.in === "delayed" ? at.dueMs : 0;
}
