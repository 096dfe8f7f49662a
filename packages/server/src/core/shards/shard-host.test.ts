import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "@codeq/simulated";
import { BrokerWorld, claimIds, create } from "../../../test/broker-world.ts";
import { Feed } from "../../telemetry/feed.ts";
import { ShardHost } from "./shard-host.ts";

test("that a queue has tasks is told at once, and how many a little later", async () => {
  const world = new BrokerWorld();
  const broker = await world.open();
  await using _store = broker.store;
  let messages = 0;
  const later: (() => void)[] = [];
  await ShardHost.openAlone({
    broker,
    feed: new Feed(),
    shard: 0,
    count: 1,
    isLimited: false,
    defer: (run) => queueMicrotask(run),
    deferHints: (run) => later.push(run),
    send: () => {
      messages += 1;
    },
    onBug: assert.ifError,
    scrape: () => "",
  });
  await settle(20);
  messages = 0;
  create(broker);
  await settle(20);
  assert.equal(messages, 1);
  for (let n = 0; n < 5; n += 1) {
    create(broker);
    await settle(20);
  }
  assert.deepEqual([messages, later.length], [1, 1]);
  for (const run of later.splice(0)) run();
  await settle(20);
  assert.equal(messages, 2);
  await claimIds(broker, { count: 6 });
  await settle(20);
  assert.deepEqual([messages, later.length], [2, 1]);
  for (const run of later.splice(0)) run();
  await settle(20);
  create(broker);
  await settle(20);
  assert.equal(messages, 4);
});
