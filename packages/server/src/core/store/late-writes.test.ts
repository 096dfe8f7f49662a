import assert from "node:assert/strict";
import { test } from "node:test";
import { remove } from "@codeq/engine";
import { settle } from "../../../../simulated/src/index.ts";
import { acme, BrokerWorld, enqueueNow } from "../../../test/broker-world.ts";
import type { ShardBroker } from "../broker/shard-broker.ts";
import { LateWrite } from "./late-writes.ts";

const of = { tenantId: acme, id: "b" };

async function setup(
  options: ConstructorParameters<typeof BrokerWorld>[0] = {},
): Promise<{ world: BrokerWorld; broker: ShardBroker }> {
  const world = new BrokerWorld(options);
  const broker = await world.open();
  await broker.batches.put(of, {
    ...{ command: "report", payload: "{}", priority: 0, webhook: "", maxAttempts: 1, tags: [] },
    ...{ timeoutSeconds: 0, ttlSeconds: 0, on: "end", failFast: false, openSeconds: 3600 },
  });
  return { world, broker };
}

/** How many members the stored state of the batch counts. */
function storedTotal({ store }: ShardBroker): number | undefined {
  return store.batch(of)?.state.total;
}

test("a record is encoded once for each group, with its last text, and is read as such before", async () => {
  const { broker } = await setup();
  let encoded = 0;
  for (const text of ["1", "2", "3"]) {
    const encode = (): string => {
      encoded += 1;
      return text;
    };
    broker.store.commitRecords([new LateWrite("codeq/test", encode)]);
  }
  enqueueNow(broker, { batchId: of.id });
  enqueueNow(broker, { batchId: of.id });
  assert.deepEqual([encoded, storedTotal(broker)], [0, 2]);
  await settle();
  assert.equal(encoded, 1);
  assert.ok(broker.store.isUnchanged([{ key: "codeq/test", text: "3" }]));
});

test("a removal that follows in the same group is what remains", async () => {
  const { broker } = await setup();
  broker.store.commitRecords([new LateWrite("codeq/test", () => "1")]);
  broker.store.commitRecords([remove("codeq/test")]);
  await settle();
  assert.ok(broker.store.isUnchanged([{ key: "codeq/test", text: undefined }]));
});

test("a change that finds its group full is not in the record of that group", async () => {
  const { world, broker } = await setup({ segmentBytes: 4 * 1024 * 1024 });
  enqueueNow(broker, { batchId: of.id });
  for (let n = 1; n < 1024; n += 1) enqueueNow(broker);
  const lost = enqueueNow(broker, { batchId: of.id });
  // The record of the second member does not get to the disk.
  world.disk.slow("write", Promise.resolve());
  world.disk.slow("write", new Promise(() => {}));
  await settle();
  const again = await world.kill();
  assert.equal(again.store.task(lost.id), undefined);
  assert.equal(storedTotal(again), 1);
});

test("a full disk takes back the record of what it refused, and of what waited behind that", async () => {
  const { world, broker } = await setup();
  const writing = Promise.withResolvers<void>();
  world.disk.slow("write", writing.promise);
  world.disk.failNext("write", "ENOSPC");
  // As many groups as the log takes at once.
  for (let n = 0; n < 10; n += 1) {
    enqueueNow(broker);
    await settle();
  }
  enqueueNow(broker, { batchId: of.id });
  assert.equal(storedTotal(broker), 1);
  writing.resolve();
  await settle();
  assert.equal(storedTotal(broker), 0);
});
