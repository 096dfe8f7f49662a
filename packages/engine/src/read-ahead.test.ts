import assert from "node:assert/strict";
import { test } from "node:test";
import { sealed } from "../test/sealed.ts";
import { moved, type Thing, thing, things } from "../test/things.ts";
import { put } from "./batch-codec.ts";
import type { KvWrite } from "./kv/kv.ts";
import { MemoryKv } from "./kv/memory-kv.ts";
import { Overlay } from "./overlay.ts";
import { RowsAhead, TextsAhead } from "./read-ahead.ts";
import { recordOf } from "./row-codec.ts";

/** A kv with a few keys, and a flush that replaces one of them. */
async function setup(valueBytes = 3): Promise<{
  ahead: TextsAhead;
  flush: (key: string) => Promise<void>;
}> {
  const kv = new MemoryKv();
  const keys = ["k0", "k1", "k2", "k3", "k4"];
  await kv.write(keys.map((key) => ({ key, value: sealed(key, "x".repeat(valueBytes)) })));
  const ahead = new TextsAhead(kv);
  const flush = async (key: string): Promise<void> => {
    const overlay = new Overlay();
    const buffer = Buffer.from("new");
    overlay.apply(put(key, "new"), { buffer, start: 0, end: 3 }, 1);
    await kv.write([{ key, value: sealed(key, "new") }]);
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

function stored(row: Thing): KvWrite {
  const key = things.prefix + row.id;
  return { key, value: sealed(key, recordOf(row, things)) };
}

/** Three rows in a kv, and a flush that moves one of them. */
async function setupRows(): Promise<{
  kv: MemoryKv;
  ahead: RowsAhead;
  move: (row: Thing) => Promise<void>;
}> {
  const kv = new MemoryKv();
  const write = (row: Thing): Promise<void> => kv.write([stored(row)]);
  for (const row of [a, b, c]) await write(row);
  const ahead = new RowsAhead(kv, things);
  const move = async (row: Thing): Promise<void> => {
    const overlay = new Overlay();
    const change = moved(row, "high");
    overlay.change(row.id, change, 1);
    await write(change.after);
    ahead.flushed(overlay);
  };
  return { kv, ahead, move };
}

const [a, b, c] = [thing("a", "low"), thing("b", "low"), thing("c", "low")];

test("rows are decoded once and stay, until a flush has written them", async () => {
  const { ahead, move } = await setupRows();
  await ahead.read(["c", "a", "missing"]);
  assert.deepEqual(ahead.get("a"), a);
  assert.equal(ahead.get("a"), ahead.get("a"));
  assert.equal(ahead.get("b"), undefined);
  await move(a);
  assert.equal(ahead.get("a"), undefined);
  assert.deepEqual(ahead.get("c"), c);
  ahead.clear();
  assert.equal(ahead.get("c"), undefined);
});

test("a reading of rows that a flush overtook leaves those aside", async () => {
  const { kv, ahead, move } = await setupRows();
  const gate = Promise.withResolvers<void>();
  const cursor = kv.cursor.bind(kv);
  kv.cursor = (range) => {
    const inner = cursor(range);
    return {
      next: (count) => gate.promise.then(() => inner.next(count)),
      close: () => inner.close(),
    };
  };
  const reading = ahead.read(["a", "b", "c"]);
  await move(b);
  gate.resolve();
  await reading;
  assert.equal(ahead.get("b"), undefined);
  assert.deepEqual(ahead.get("c"), c);
});

test("rows that are read ahead take no more memory than they may", async () => {
  const kv = new MemoryKv();
  const rows = Array.from({ length: 40 }, (_, n) => thing(`n${n}`, "", "x".repeat(60_000)));
  const ahead = new RowsAhead(kv, things);
  for (let round = 0; round < 10; round += 1) {
    const ids = rows.map(({ id }) => `${round}${id}`);
    await kv.write(rows.map((row) => stored({ ...row, id: `${round}${row.id}` } as Thing)));
    await ahead.read(ids);
    assert.ok(ahead.get(ids.at(-1) as string), "the newest are there");
  }
  assert.equal(ahead.get("0n0"), undefined);
  assert.ok(ahead.get("9n0"));
});
