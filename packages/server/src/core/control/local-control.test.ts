import assert from "node:assert/strict";
import { test } from "node:test";
import { put } from "@codeq/engine";
import { BrokerWorld } from "../../../test/broker-world.ts";
import { auditPrefix } from "../store/keys.ts";
import { LocalControl } from "./local-control.ts";

const key = `${auditPrefix}x`;

async function setup(): Promise<{ world: BrokerWorld; control: LocalControl }> {
  const world = new BrokerWorld();
  const control = new LocalControl(await world.openStore());
  assert.equal(await control.commit([put(key, "1")]), true);
  return { world, control };
}

test("a commit that expects a record as it no longer is changes nothing", async () => {
  const { control } = await setup();
  const expected = [{ key, text: "1" }];
  const both = ["2", "3"].map((text) => control.commit([put(key, text)], expected));
  assert.deepEqual(await Promise.all(both), [true, false]);
});

test("after a commit that failed with the storage, the next one fails and does not ask to look again", async () => {
  const { world, control } = await setup();
  const expected = [{ key, text: "1" }];
  world.disk.failNext("sync", "EIO");
  await assert.rejects(control.commit([put(key, "2")], expected), { code: "storage_failed" });
  await assert.rejects(control.commit([put(key, "3")], expected), { code: "storage_failed" });
});
