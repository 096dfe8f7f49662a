/**
 * What every `Kv` does, written as tests. `open` starts from nothing; `reopen` closes the kv and opens
 * it again as the next process would.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Kv, KvEntry, KvRange, KvWrite } from "../src/kv/kv.ts";

type Open = () => Promise<{ readonly kv: Kv; reopen(): Promise<Kv> }>;

export function kvContract(name: string, open: Open): void {
  describe(`${name} is a Kv`, () => {
    describeWriting(open);
    describeBatches(open);
    describeCursors(open);
    describeReopening(open);
  });
}

/** Everything in a range, as text, read in pieces of `count`. */
export async function read(kv: Kv, range: KvRange, count = 3): Promise<[string, string][]> {
  const cursor = kv.cursor(range);
  const found: KvEntry[] = [];
  for (;;) {
    const piece = await cursor.next(count);
    assert.ok(piece.length <= count);
    if (piece.length === 0) break;
    found.push(...piece);
  }
  await cursor.close();
  return found.map(([key, value]) => [key, value.toString()]);
}

/** Everything in one batch. */
export async function writeAll(
  kv: Kv,
  writes: readonly KvWrite[],
  options: { readonly sync: boolean } = sync,
): Promise<void> {
  const batch = kv.batch();
  for (const { key, value } of writes) {
    if (value === undefined) batch.del(key);
    else batch.put(key, value);
  }
  await batch.write(options);
}

export function putOf(key: string, value: string): KvWrite {
  return { key, value: Buffer.from(value) };
}

export function deleteOf(key: string): KvWrite {
  return { key, value: undefined };
}

const all: KvRange = { after: "", before: "~" };
const sync = { sync: true };

function describeWriting(open: Open): void {
  test("a new kv is empty", async () => {
    const { kv } = await open();
    assert.equal(kv.get("a"), undefined);
    assert.deepEqual(await read(kv, all), []);
  });

  test("what was written is read back, replaced and deleted", async () => {
    const { kv } = await open();
    await writeAll(kv, [putOf("a", "1"), putOf("b", "2")], sync);
    await writeAll(kv, [putOf("a", "one"), deleteOf("b"), deleteOf("never there")], {
      sync: false,
    });
    assert.equal(kv.get("a")?.toString(), "one");
    assert.equal(kv.get("b"), undefined);
  });

  test("the writes of a batch count in their order", async () => {
    const { kv } = await open();
    await writeAll(kv, [putOf("a", "1"), deleteOf("a"), putOf("b", "1"), putOf("b", "2")], sync);
    await writeAll(kv, [deleteOf("c"), putOf("c", "3")], sync);
    assert.deepEqual(await read(kv, all), [
      ["b", "2"],
      ["c", "3"],
    ]);
  });

  test("an empty value is a value, and an empty batch is no change", async () => {
    const { kv } = await open();
    await writeAll(kv, [putOf("a", "")], sync);
    await writeAll(kv, [], sync);
    assert.equal(kv.get("a")?.length, 0);
    assert.deepEqual(await read(kv, all), [["a", ""]]);
  });

  test("bytes are kept as they are, and do not change with the buffer they came from", async () => {
    const { kv } = await open();
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const given = Buffer.from(bytes);
    await writeAll(kv, [{ key: "a", value: given.subarray(0, 256) }], sync);
    given.fill(0);
    assert.deepEqual(kv.get("a"), bytes);
  });
}

function describeBatches(open: Open): void {
  test("the memory of a value may be used again as soon as it was put", async () => {
    const { kv } = await open();
    const memory = Buffer.alloc(8);
    const batch = kv.batch();
    for (const [at, text] of ["first", "other", "a", "longest."].entries()) {
      batch.put(`k${at}`, memory.subarray(0, memory.write(text)));
    }
    memory.fill(0);
    await batch.write(sync);
    assert.deepEqual(await read(kv, all), [
      ["k0", "first"],
      ["k1", "other"],
      ["k2", "a"],
      ["k3", "longest."],
    ]);
  });

  test("nothing of a batch shows before it is written, and nothing ever if it is given up", async () => {
    const { kv } = await open();
    await writeAll(kv, [putOf("a", "1")]);
    const batch = kv.batch();
    batch.put("a", Buffer.from("2"));
    batch.put("b", Buffer.from("2"));
    assert.deepEqual(await read(kv, all), [["a", "1"]]);
    await batch.close();
    assert.deepEqual(await read(kv, all), [["a", "1"]]);
    await writeAll(kv, [putOf("b", "3")]);
    assert.equal(kv.get("b")?.toString(), "3");
  });

  test("a batch of deletions alone is written", async () => {
    const { kv } = await open();
    await writeAll(kv, [putOf("a", "1"), putOf("b", "1")]);
    await writeAll(kv, [deleteOf("a"), deleteOf("b")]);
    assert.deepEqual(await read(kv, all), []);
  });

  test("a large batch is applied as a whole", async () => {
    const { kv } = await open();
    const writes = Array.from({ length: 12_345 }, (_, n) =>
      putOf(`k${String(n).padStart(6, "0")}`, "x".repeat(n % 500)),
    );
    await writeAll(kv, writes, sync);
    const found = await read(kv, all, 1000);
    assert.equal(found.length, writes.length);
    assert.deepEqual(
      found.map(([key]) => key),
      writes.map(({ key }) => key),
    );
  });
}

function describeCursors(open: Open): void {
  test("a cursor gives keys in the order of their characters, without both ends", async () => {
    const { kv } = await open();
    const keys = ["a", "a/", "a/b", "a0", "B", "b", "_", "~x", "10", "9"];
    await writeAll(
      kv,
      keys.map((key) => putOf(key, key)),
      sync,
    );
    const names = async (after: string, before: string): Promise<string[]> =>
      (await read(kv, { after, before })).map(([key]) => key);
    assert.deepEqual(await names("", "~~"), keys.toSorted());
    assert.deepEqual(await names("a", "b"), ["a/", "a/b", "a0"]);
    assert.deepEqual(await names("a/", "a/b"), []);
    assert.deepEqual(await names("b", "a"), []);
    assert.deepEqual(await names("a", "a"), []);
    assert.deepEqual(await names("x", "~"), []);
  });

  test("a cursor goes from the last key to the first when it is asked to", async () => {
    const { kv } = await open();
    const keys = ["a", "a/", "a/b", "a0", "b"];
    await writeAll(
      kv,
      keys.map((key) => putOf(key, key)),
      sync,
    );
    const names = async (after: string, before: string): Promise<string[]> =>
      (await read(kv, { after, before, isReverse: true })).map(([key]) => key);
    assert.deepEqual(await names("", "~"), keys.toSorted().reverse());
    assert.deepEqual(await names("a", "b"), ["a0", "a/b", "a/"]);
    assert.deepEqual(await names("b", "a"), []);
  });

  test("a cursor of text passes over keys that it need not read", async () => {
    const { kv } = await open();
    const keys = ["a", "b", "b/1", "c", "d", "e"];
    await writeAll(
      kv,
      keys.map((key) => putOf(key, key)),
      sync,
    );
    const cursor = kv.textCursor({ after: "a", before: "e" });
    const found: (readonly [string, string])[] = [];
    for (const key of ["a\0", "b/", "c\0"]) {
      cursor.skipTo(key);
      found.push(...(await cursor.next(1)));
    }
    assert.deepEqual(found, [
      ["b", "b"],
      ["b/1", "b/1"],
      ["d", "d"],
    ]);
    cursor.skipTo("d\0");
    assert.deepEqual(await cursor.next(1), []);
    await cursor.close();
  });

  test("a cursor sees the moment it was made, whatever is written afterwards", async () => {
    const { kv } = await open();
    await writeAll(kv, [putOf("a", "1"), putOf("b", "1"), putOf("c", "1"), putOf("d", "1")], sync);
    const cursor = kv.cursor(all);
    const first = await cursor.next(1);
    await writeAll(kv, [deleteOf("b"), putOf("c", "2"), putOf("bb", "2")], sync);
    const rest = await cursor.next(10);
    const later = kv.cursor(all);
    await writeAll(kv, [deleteOf("a"), deleteOf("d")], sync);
    assert.deepEqual(
      [...first, ...rest].map(([key, value]) => key + value),
      ["a1", "b1", "c1", "d1"],
    );
    assert.deepEqual(
      (await later.next(10)).map(([key, value]) => key + value),
      ["a1", "bb2", "c2", "d1"],
    );
    await cursor.close();
    await later.close();
  });

  test("a cursor at its end stays there", async () => {
    const { kv } = await open();
    await writeAll(kv, [putOf("a", "1")], sync);
    const cursor = kv.cursor(all);
    assert.equal((await cursor.next(5)).length, 1);
    assert.equal((await cursor.next(5)).length, 0);
    assert.equal((await cursor.next(5)).length, 0);
    await cursor.close();
  });

  test("values larger than what is read ahead come whole", async () => {
    const { kv } = await open();
    const value = "y".repeat(700_000);
    await writeAll(
      kv,
      ["a", "b", "c", "d"].map((key) => putOf(key, value)),
      sync,
    );
    assert.deepEqual(
      (await read(kv, all, 10)).map(([key, { length }]) => `${key} ${length}`),
      ["a 700000", "b 700000", "c 700000", "d 700000"],
    );
  });
}

function describeReopening(open: Open): void {
  test("everything that was made durable is there after reopening", async () => {
    const { kv, reopen } = await open();
    await writeAll(kv, [putOf("a", "1"), putOf("b", "2")], sync);
    await writeAll(kv, [deleteOf("a")], { sync: false });
    await kv.files?.noteWritten(1);
    await kv.files?.makeDurable();
    const next = await reopen();
    assert.deepEqual(await read(next, all), [["b", "2"]]);
    await writeAll(next, [putOf("c", "3")], sync);
    assert.equal(next.get("c")?.toString(), "3");
  });

  test("recovering keeps everything, and writing goes on", async () => {
    const { kv } = await open();
    await writeAll(kv, [putOf("a", "1")], sync);
    await kv.recover();
    assert.equal(kv.get("a")?.toString(), "1");
    await writeAll(kv, [putOf("b", "2")], sync);
    assert.equal((await read(kv, all)).length, 2);
  });

  test("statistics are numbers", async () => {
    const { kv } = await open();
    await writeAll(kv, [putOf("a", "1")], sync);
    const { levels, ...sums } = kv.stats();
    for (const number of [...Object.values(sums), ...levels.flatMap(Object.values)]) {
      assert.ok(Number.isFinite(number), JSON.stringify(kv.stats()));
    }
  });
}
