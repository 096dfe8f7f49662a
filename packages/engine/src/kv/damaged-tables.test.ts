/**
 * LevelDB serves a flipped bit of a table as if it were data, skips what is damaged in its own log, and
 * makes an empty store where CURRENT is missing. None of that may get through.
 */
import assert from "node:assert/strict";
import {
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { putOf, writeAll } from "../../test/kv-contract.ts";
import { scrubTables } from "./check-tables.ts";
import { LevelKv } from "./level-kv.ts";
import { readStoreFiles } from "./manifest.ts";

/** A closed store with two tables; `files` are those that matter. */
async function setup(t: TestContext): Promise<{ directory: string; files: () => string[] }> {
  const directory = mkdtempSync(join(tmpdir(), "codeq-tables-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const kv = await LevelKv.open(directory);
  for (const [round, letter] of ["a", "b"].entries()) {
    const writes = Array.from({ length: 500 }, (_, n) =>
      putOf(`${letter}${n}`, `${n} `.repeat(40)),
    );
    await writeAll(kv, writes);
    await kv.files.noteWritten(round + 1);
    assert.equal(await kv.files.makeDurable(), round + 1);
  }
  await kv.close();
  const files = (): string[] => readdirSync(directory).filter((name) => /^\d+\.ldb$/.test(name));
  assert.equal(files().length, 2);
  return { directory, files };
}

async function assertRefused(directory: string, names: RegExp): Promise<void> {
  const before = readdirSync(directory);
  await assert.rejects(LevelKv.open(directory), (error: { code: string; message: string }) => {
    assert.equal(error.code, "corrupt", String(error));
    assert.match(error.message, names);
    return true;
  });
  assert.deepEqual(readdirSync(directory), before, "nothing was made and nothing removed");
}

test("every flipped bit of a table is found, and the file and place are named", async (t) => {
  const { directory, files } = await setup(t);
  for (const name of files()) {
    const path = join(directory, name);
    const good = readFileSync(path);
    for (let round = 0; round < 60; round += 1) {
      const at = Math.floor((good.length * round) / 60);
      const bytes = Buffer.from(good);
      bytes[at] = (bytes[at] as number) ^ (1 << (round % 8));
      writeFileSync(path, bytes);
      await assertRefused(directory, new RegExp(`${name} .*(offset|index)`));
      await assert.rejects(scrubTables(directory), { code: "corrupt" });
    }
    writeFileSync(path, good);
  }
  await (await LevelKv.open(directory)).close();
});

test("a table that is cut, missing, full of zeros or another one is refused", async (t) => {
  const { directory, files } = await setup(t);
  const [first, second] = files() as [string, string];
  const path = join(directory, first);
  const good = readFileSync(path);
  truncateSync(path, good.length - 10);
  await assertRefused(directory, /bytes instead of/);
  writeFileSync(path, Buffer.alloc(good.length));
  await assertRefused(directory, /no footer/);
  copyFileSync(join(directory, second), path);
  await assertRefused(directory, new RegExp(first));
  rmSync(path);
  await assertRefused(directory, /is missing/);
});

test("a store whose CURRENT is missing is not made anew", async (t) => {
  const { directory } = await setup(t);
  rmSync(join(directory, "CURRENT"));
  await assertRefused(directory, /CURRENT is missing/);
});

test("a store that lost all of its files is refused when the log needs it", async (t) => {
  const { directory } = await setup(t);
  for (const name of readdirSync(directory)) rmSync(join(directory, name));
  await assert.rejects(LevelKv.open(directory, { mustHaveTables: true }), { code: "corrupt" });
  assert.deepEqual(readdirSync(directory), []);
});

test("a flipped bit of the manifest is refused, or takes the store back to what it was", async (t) => {
  const { directory } = await setup(t);
  const { manifest, tables } = readStoreFiles(directory);
  const path = join(directory, manifest as string);
  const good = readFileSync(path);
  for (let at = 0; at < good.length; at += 1) {
    const bytes = Buffer.from(good);
    bytes[at] = (bytes[at] as number) ^ (1 << (at % 8));
    writeFileSync(path, bytes);
    try {
      assert.ok(readStoreFiles(directory).tables.length < tables.length, `at ${at}`);
    } catch (error) {
      assert.equal((error as { code: string }).code, "corrupt");
    }
  }
});

test("LevelDB's own log is not trusted: the store is what its tables hold", async (t) => {
  const { directory } = await setup(t);
  const kv = await LevelKv.open(directory);
  await writeAll(kv, [putOf("a0", "later")], { sync: true });
  assert.ok((await kv.files.noteWritten(3)) < 3, "a batch in LevelDB's log is not durable");
  await kv.close();
  const next = await LevelKv.open(directory);
  const found = next.get("a0")?.toString();
  await next.close();
  assert.equal(found, "0 ".repeat(40));
});

test("a store that is used is scrubbed without a false alarm", async (t) => {
  const { directory } = await setup(t);
  const kv = await LevelKv.open(directory);
  let isDone = false;
  const writing = (async () => {
    for (let round = 0; !isDone; round += 1) {
      const value = String(round).repeat(300);
      await writeAll(
        kv,
        Array.from({ length: 300 }, (_, n) => putOf(`a${n}`, value)),
      );
      await kv.files.noteWritten(round + 3);
      await kv.files.makeDurable();
    }
  })();
  for (let round = 0; round < 40; round += 1) {
    await kv.files.scrub();
    await new Promise(setImmediate);
  }
  isDone = true;
  await writing;
  // Not in a hook: the hook that removes the directory runs first, and the store may still compact.
  await kv.close();
});
