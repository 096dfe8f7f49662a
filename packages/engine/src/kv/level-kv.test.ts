import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import fc from "fast-check";
import { deleteOf, kvContract, putOf, read, writeAll } from "../../test/kv-contract.ts";
import type { Kv, KvCursor } from "./kv.ts";
import { LevelKv, levelSizes } from "./level-kv.ts";
import { MemoryKv } from "./memory-kv.ts";

const directories: string[] = [];
const opened: LevelKv[] = [];

after(async () => {
  for (const kv of opened) await kv.close();
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
});

async function setup(): Promise<{ directory: string; kv: LevelKv }> {
  const directory = mkdtempSync(join(tmpdir(), "codeq-level-"));
  directories.push(directory);
  const kv = await LevelKv.open(directory);
  opened.push(kv);
  return { directory, kv };
}

kvContract("LevelKv", async () => {
  const { directory, kv } = await setup();
  const reopen = async (): Promise<Kv> => {
    await kv.close();
    const next = await LevelKv.open(directory);
    opened.push(next);
    return next;
  };
  return { kv, reopen };
});

test("a directory whose files are damaged is refused as such", async () => {
  const { directory, kv } = await setup();
  await writeAll(kv, [putOf("a", "1")], { sync: true });
  await kv.close();
  for (const name of readdirSync(directory)) {
    if (name.startsWith("MANIFEST")) writeFileSync(join(directory, name), "damaged");
  }
  await assert.rejects(LevelKv.open(directory), (error: { code?: string }) => {
    assert.ok(["corrupt", "storage_failed"].includes(error.code ?? ""), String(error));
    return true;
  });
});

test("a store that is open is not opened a second time, and keeps its files", async () => {
  const { directory, kv } = await setup();
  await writeAll(kv, [putOf("a", "1")], { sync: true });
  await assert.rejects(LevelKv.open(directory), { code: "locked" });
  await kv.files.noteWritten(1);
  assert.equal(kv.get("a")?.toString(), "1");
});

test("reads that meet a recovery are refused for now, and then answered", async () => {
  const { kv } = await setup();
  await writeAll(kv, [putOf("a", "1")], { sync: true });
  const recovery = kv.recover();
  assert.throws(() => kv.get("a"), { code: "disk_full" });
  assert.throws(() => kv.cursor({ after: "", before: "~" }), { code: "disk_full" });
  await recovery;
  assert.equal(kv.get("a")?.toString(), "1");
});

test("a cursor that a recovery closes fails with a fault, not with an answer", async () => {
  const { kv } = await setup();
  await writeAll(kv, [putOf("a", "1")], { sync: true });
  const cursor = kv.cursor({ after: "", before: "~" });
  await kv.recover();
  await assert.rejects(cursor.next(5), { name: "FaultError" });
  await cursor.close();
});

test("statistics tell the files and bytes of each level", async () => {
  const { kv } = await setup();
  assert.deepEqual(kv.stats().levels, []);
  const value = "x".repeat(1024);
  for (let round = 0; round < 3; round += 1) {
    await writeAll(
      kv,
      Array.from({ length: 3000 }, (_, n) => putOf(`k${n}`, value)),
      { sync: false },
    );
    await kv.files.noteWritten(round);
    await kv.files.makeDurable();
  }
  const { levels, memoryBytes } = kv.stats();
  const files = levels.reduce((sum, level) => sum + level.files, 0);
  const bytes = levels.reduce((sum, level) => sum + level.bytes, 0);
  assert.ok(files >= 1, JSON.stringify(levels));
  assert.ok(bytes >= 0 && memoryBytes > 0, JSON.stringify(kv.stats()));
});

test("its own log, its write buffers and its stalls are known", async () => {
  const { directory, kv } = await setup();
  await kv.close();
  const small = await LevelKv.open(directory, { sizes: smallSizes });
  opened.push(small);
  const size = 30 * 1024 * 1024;
  // The buffer is overfull; the next write makes a table of it, for which a write has to wait that comes before it is ready.
  await writeAll(small, [putOf("a", "x".repeat(size))], { sync: false });
  assert.ok(small.stats().bufferBytes >= size && small.stats().bufferBytes < size + 65_536);
  assert.equal(small.stats().stalls, 0);
  await writeAll(small, [putOf("b", "y".repeat(70_000))], { sync: false });
  assert.ok(small.stats().bufferBytes >= 70_000);
  let written = size + 70_000;
  while (small.stats().stalls === 0 && written < 3 * size) {
    await writeAll(small, [putOf("c", "z".repeat(70_000))], { sync: false });
    written += 70_000;
  }
  assert.ok(small.stats().stalls > 0);
  await small.files.noteWritten(1);
  await small.files.makeDurable();
  const { ownLogBytes, bufferBytes, levels, stalls } = small.stats();
  assert.equal(bufferBytes, 0);
  // A small file may have been gone before it was looked at.
  assert.ok(ownLogBytes > size && ownLogBytes < written + 65_536, `${ownLogBytes}`);
  const writtenBytes = (): number =>
    small.stats().levels.reduce((sum, { writeBytes }) => sum + writeBytes, 0);
  const before = writtenBytes();
  assert.ok(before > 0, JSON.stringify(levels));
  await small.recover();
  assert.ok(writtenBytes() >= before);
  assert.ok(small.stats().ownLogBytes >= ownLogBytes);
  assert.equal(small.stats().stalls, stalls);
});

const smallSizes = { cacheBytes: 256 * 1024, writeBufferBytes: 64 * 1024 };

/** Three megabytes in 3000 keys, each read once. */
async function fillAndRead(kv: LevelKv): Promise<void> {
  const value = "x".repeat(1024);
  for (let round = 0; round < 30; round += 1) {
    const writes = Array.from({ length: 100 }, (_, n) => putOf(`k${round * 100 + n}`, value));
    await writeAll(kv, writes, { sync: false });
  }
  await kv.files.noteWritten(1);
  await kv.files.makeDurable();
  for (let n = 0; n < 3000; n += 1) assert.equal(kv.get(`k${n}`)?.length, 1024);
}

test("the sizes that it is given bound the memory of its cache and its write buffer", async () => {
  const { directory, kv } = await setup();
  await fillAndRead(kv);
  assert.equal(kv.stats().cacheBytesMax, levelSizes.cacheBytes);
  assert.ok(kv.stats().memoryBytes > 2 * 1024 * 1024, `${kv.stats().memoryBytes}`);
  await kv.close();
  rmSync(directory, { recursive: true });

  const small = await LevelKv.open(directory, { sizes: smallSizes });
  opened.push(small);
  await fillAndRead(small);
  assert.equal(small.stats().cacheBytesMax, smallSizes.cacheBytes);
  assert.ok(small.stats().memoryBytes < 512 * 1024, `${small.stats().memoryBytes}`);
  await small.recover();
  await fillAndRead(small);
  assert.ok(small.stats().memoryBytes < 512 * 1024, `${small.stats().memoryBytes}`);
});

test("a small write buffer becomes a table when it is full", async () => {
  const { directory, kv } = await setup();
  await kv.close();
  const small = await LevelKv.open(directory, { sizes: smallSizes });
  opened.push(small);
  for (let round = 0; round < 10; round += 1) {
    await writeAll(small, [putOf(`k${round}`, "x".repeat(70_000))], { sync: false });
  }
  assert.ok(small.stats().readAmplification >= 1, JSON.stringify(small.stats()));
});

/** The same calls on both; every answer must be the same. */
type Step =
  | { readonly kind: "write"; readonly writes: readonly (readonly [string, string | undefined])[] }
  | { readonly kind: "cursor"; readonly from: string; readonly to: string }
  | { readonly kind: "next"; readonly which: number; readonly count: number }
  | { readonly kind: "get"; readonly key: string };

const key = fc.string({
  unit: fc.constantFrom("a", "b", "/", "0", "~", "_", "Z"),
  minLength: 1,
  maxLength: 4,
});
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant("write" as const),
    writes: fc.array(fc.tuple(key, fc.option(fc.string({ maxLength: 5 }), { nil: undefined })), {
      maxLength: 8,
    }),
  }),
  fc.record({ kind: fc.constant("cursor" as const), from: key, to: key }),
  fc.record({
    kind: fc.constant("next" as const),
    which: fc.nat(),
    count: fc.integer({ min: 1, max: 5 }),
  }),
  fc.record({ kind: fc.constant("get" as const), key }),
);

class Side {
  readonly kv: Kv;
  readonly cursors: KvCursor[] = [];

  constructor(kv: Kv) {
    this.kv = kv;
  }

  async step(step: Step): Promise<unknown> {
    switch (step.kind) {
      case "write": {
        const writes = step.writes.map(([at, value]) =>
          value === undefined ? deleteOf(at) : putOf(at, value),
        );
        return writeAll(this.kv, writes, { sync: false });
      }
      case "cursor":
        this.cursors.push(this.kv.cursor({ after: step.from, before: step.to }));
        return undefined;
      case "next": {
        const cursor = this.cursors[step.which % this.cursors.length];
        const piece = await cursor?.next(step.count);
        return piece?.map(([at, value]) => [at, value.toString()]);
      }
      case "get":
        return this.kv.get(step.key)?.toString();
    }
  }
}

test("the model and the real one answer every sequence of calls the same", async () => {
  const { kv } = await setup();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const everything = await read(kv, { after: "", before: "\u007f" }, 1000);
      await writeAll(
        kv,
        everything.map(([at]) => deleteOf(at)),
        { sync: false },
      );
      const real = new Side(kv);
      const model = new Side(new MemoryKv());
      for (const each of steps) {
        assert.deepEqual(await real.step(each), await model.step(each), JSON.stringify(each));
      }
      for (const cursor of real.cursors) await cursor.close();
    }),
    { numRuns: 100 },
  );
});
