import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { DataLock } from "./data-lock.ts";

function setup(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), "codeq-lock-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

test("a directory is locked once; the second one is told so", async (t) => {
  const directory = setup(t);
  const lock = await DataLock.take(directory);
  for (let tries = 0; tries < 3; tries += 1) {
    await assert.rejects(DataLock.take(directory), { code: "locked", name: "FaultError" });
  }
  await lock[Symbol.asyncDispose]();
  await (await DataLock.take(directory))[Symbol.asyncDispose]();
});

test("of many who begin at once, one has the lock", async (t) => {
  const directory = setup(t);
  const taken = await Promise.allSettled(Array.from({ length: 8 }, () => DataLock.take(directory)));
  const locks = taken.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  assert.equal(locks.length, 1);
  await locks[0]?.[Symbol.asyncDispose]();
});

test("nothing that lies in its folder keeps anybody from the lock", async (t) => {
  const directory = setup(t);
  await (await DataLock.take(directory))[Symbol.asyncDispose]();
  const folder = join(directory, "lock");
  for (const name of readdirSync(folder)) writeFileSync(join(folder, name), "damaged");
  await (await DataLock.take(directory))[Symbol.asyncDispose]();
});
