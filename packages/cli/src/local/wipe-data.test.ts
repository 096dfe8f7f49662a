import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DataLock } from "@codeq/server/data-dir";
import { CliWorld } from "../../test/cli-world.ts";
import type { Call } from "../call.ts";
import { wipeData } from "./wipe-data.ts";

/** Somebody who has agreed. */
const call = { options: { has: (name: string) => name === "yes" } } as unknown as Call;

async function makeData(directory: string): Promise<void> {
  mkdirSync(join(directory, "log"), { recursive: true });
  writeFileSync(join(directory, "log", "00000000000000000001.log"), "");
  mkdirSync(join(directory, "kv"));
  await (await DataLock.take(directory))[Symbol.asyncDispose]();
}

test("the data of a server goes, also behind a link, which stays", async () => {
  using world = new CliWorld();
  const [there, data] = [join(world.directory, "there"), join(world.directory, "data")];
  await makeData(there);
  symlinkSync(there, data);
  await wipeData(call, data);
  assert.deepEqual(readdirSync(there), []);
  assert.ok(existsSync(data));
  await wipeData(call, data);
});

test("shards go too, and so does a change of their number that was not finished", async () => {
  using world = new CliWorld();
  const data = join(world.directory, "data");
  await makeData(data);
  for (const name of ["shard-0", "shard-1"]) await makeData(join(data, name));
  await wipeData(call, data);
  assert.deepEqual(readdirSync(data), []);
  mkdirSync(join(data, "new-stores", "kv"), { recursive: true });
  await wipeData(call, data);
  assert.deepEqual(readdirSync(data), []);
});

test("what is not the data of a server stays", async () => {
  using world = new CliWorld();
  const data = join(world.directory, "data");
  await makeData(data);
  writeFileSync(join(data, "thesis.txt"), "");
  await assert.rejects(wipeData(call, data), /files that are not data of a server \(thesis\.txt\)/);
  const other = join(world.directory, "other");
  mkdirSync(join(other, "log"), { recursive: true });
  writeFileSync(join(other, "log", "access.log"), "");
  await assert.rejects(wipeData(call, other), /does not look like the data of a server/);
  assert.deepEqual([readdirSync(data).length, readdirSync(other)], [4, ["log"]]);
});
