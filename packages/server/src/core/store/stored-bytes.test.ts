import assert from "node:assert/strict";
import { test } from "node:test";
import { textOf } from "../../../../engine/test/sealed.ts";
import { settle } from "../../../../simulated/src/index.ts";
import {
  acme,
  BrokerWorld,
  claim,
  completed,
  enqueue,
  enqueueNow,
  nack,
  owned,
  storedSizes,
  submit,
  success,
  umbrella,
} from "../../../test/broker-world.ts";
import type { ShardBroker } from "../broker/shard-broker.ts";
import { storedBytesKey } from "./keys.ts";

async function setup(
  options: ConstructorParameters<typeof BrokerWorld>[0] = {},
): Promise<{ world: BrokerWorld; broker: ShardBroker }> {
  const world = new BrokerWorld(options);
  return { world, broker: await world.open() };
}

test("a total has the payloads and results there are, in bytes, and goes with the last of them", async () => {
  const { world, broker } = await setup();
  const artifacts = [{ name: "äöü.txt", url: "file:///x" }];
  const task = await enqueue(broker, { payload: '"äö"' });
  assert.equal(broker.store.storedBytes(acme), 6);
  await enqueue(broker, { tenantId: umbrella, payload: "[]" });
  assert.deepEqual([broker.store.storedBytes(acme), broker.store.storedBytes(umbrella)], [6, 2]);
  await claim(broker);
  const done = await submit(broker, owned(task), completed('{"ö":1}', artifacts)).done;
  const result = '{"_":1}'.length + 1 + "äöü.txt".length + 3 + "file:///x".length;
  assert.equal(broker.store.storedBytes(acme), 6 + result);
  assert.equal(done.task.storedBytes, 6 + result);
  await broker.delete([done.task]);
  assert.deepEqual([broker.store.storedBytes(acme), broker.store.storedBytes(umbrella)], [0, 2]);
  await settle();
  await broker.store.flushNow();
  assert.equal(world.contents.has(storedBytesKey(acme)), false);
  assert.equal(textOf(world.contents, storedBytesKey(umbrella)), "2");
});

test("what comes back adds nothing, and a replay of a key adds nothing", async () => {
  const { broker } = await setup();
  const task = await enqueue(broker, { payload: "[1]", idempotencyKey: "k" });
  await enqueue(broker, { payload: "[1]", idempotencyKey: "k" });
  await claim(broker);
  nack(broker, owned(task), { delaySeconds: 1, reason: "later" });
  assert.equal(broker.store.storedBytes(acme), 3);
});

test("after the end of the process the totals are those of what it had written", async () => {
  for (let writes = 0; writes < 12; writes += 1) {
    const { world, broker } = await setup({ flushBytes: 1500, segmentBytes: 4096, seed: writes });
    for (let n = 0; n < 12; n += 1) {
      if (n === writes) world.disk.slow("write", new Promise(() => {}));
      const task = enqueueNow(broker, { payload: `[${"1,".repeat(n * 7)}1]` });
      if (n % 3 === 0) void claim(broker).catch(() => {});
      if (n % 4 === 0) submit(broker, owned(task), success);
      await settle(1);
    }
    const again = await world.kill();
    const sizes = await storedSizes(again.store);
    assert.equal(again.store.storedBytes(acme), sizes.get(acme) ?? 0);
  }
});

test("a full disk takes back the bytes of what it refused", async () => {
  const { world, broker } = await setup();
  await enqueue(broker, { payload: '"kept"' });
  world.disk.failNext("write", "ENOSPC");
  enqueueNow(broker, { payload: '"refused"' });
  assert.equal(broker.store.storedBytes(acme), 15);
  await settle();
  assert.equal(broker.store.storedBytes(acme), 6);
});

test("a deletion that finds its group full is not in the total of that group", async () => {
  const { world, broker } = await setup({ segmentBytes: 4 * 1024 * 1024 });
  const task = await enqueue(broker, { payload: '"to be deleted"' });
  await claim(broker);
  const done = await submit(broker, owned(task), success).done;
  for (let n = 0; n < 1024; n += 1) enqueueNow(broker, { payload: "[]" });
  void broker.delete([done.task]).catch(() => {});
  // The record of the deletion does not get to the disk.
  world.disk.slow("write", Promise.resolve());
  world.disk.slow("write", new Promise(() => {}));
  await settle();
  const again = await world.kill();
  assert.equal(again.counts(acme, "work").ready[0], 1024);
  assert.notEqual(again.store.task(task.id), undefined);
  const sizes = await storedSizes(again.store);
  assert.equal(again.store.storedBytes(acme), sizes.get(acme));
});

test("totals of many tenants are right, whether memory still has them or not", async () => {
  const { broker } = await setup();
  const tenants = Array.from({ length: 10_500 }, (_, n) => `tenant-${n}` as typeof acme);
  for (const tenantId of tenants) enqueueNow(broker, { tenantId, payload: "[12]" });
  await settle();
  for (const tenantId of tenants) enqueueNow(broker, { tenantId, payload: "[3]" });
  await settle();
  for (const tenantId of tenants) assert.equal(broker.store.storedBytes(tenantId), 7);
});
