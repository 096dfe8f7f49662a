import assert from "node:assert/strict";
import { test } from "node:test";
import { put } from "./batch-codec.ts";
import { putOf } from "./kv/contract.ts";
import { MemoryKv } from "./kv/memory-kv.ts";
import { Overlay } from "./overlay.ts";
import { ReadAhead } from "./read-ahead.ts";

/** A kv with a few keys, and a flush that replaces one of them. */
async function setup(valueBytes = 3): Promise<{
  ahead: ReadAhead;
  flush: (key: string) => Promise<void>;
}> {
  const kv = new MemoryKv();
  const keys = ["k0", "k1", "k2", "k3", "k4"];
  await kv.write(keys.map((key) => putOf(key, "x".repeat(valueBytes))));
  const ahead = new ReadAhead(kv);
  const flush = async (key: string): Promise<void> => {
    const overlay = new Overlay();
    const buffer = Buffer.from("new");
    overlay.apply(put(key, "new"), { buffer, start: 0, end: 3 }, 1);
    await kv.write([putOf(key, "new")]);
    ahead.flushed(overlay);
  };
  return { ahead, flush };
}

test("a value that was read ahead is handed out once", async () => {
  const { ahead } = await setup();
  await ahead.read(["k3", "k1", "missing"]);
  assert.equal(ahead.take("k1")?.toString(), "xxx");
  assert.equal(ahead.take("k1"), undefined);
  assert.equal(ahead.take("k3")?.toString(), "xxx");
  assert.equal(ahead.take("k2"), undefined);
  assert.equal(ahead.take("missing"), undefined);
});

test("what a flush has written since is not handed out", async () => {
  const { ahead, flush } = await setup();
  await ahead.read(["k1", "k2"]);
  await flush("k1");
  assert.equal(ahead.take("k1"), undefined);
  assert.equal(ahead.take("k2")?.toString(), "xxx");
});

test("a reading that a flush overtook leaves its keys aside", async () => {
  const { ahead, flush } = await setup();
  const reading = ahead.read(["k0", "k1", "k2"]);
  await flush("k1");
  await reading;
  assert.notEqual(ahead.take("k1")?.toString(), "xxx");
});

test("reading the same keys again and again takes no more room than once", async () => {
  const { ahead } = await setup(1024 * 1024);
  for (let n = 0; n < 20; n += 1) await ahead.read(["k1", "k2", "k3"]);
  assert.ok(ahead.take("k1"));
  assert.ok(ahead.take("k2"));
});

test("nothing to read is no work", async () => {
  const { ahead } = await setup();
  await ahead.read([]);
  assert.equal(ahead.take("k1"), undefined);
});
