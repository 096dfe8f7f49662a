import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { diskContract } from "../../test/disk-contract.ts";
import { NodeDisk } from "./node-disk.ts";

const roots: string[] = [];

after(async () => {
  for (const root of roots) await rm(root, { recursive: true });
});

async function setup(): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), "codeq-disk-"));
  roots.push(root);
  return root;
}

diskContract("NodeDisk", async () => NodeDisk.open(join(await setup(), "data")));

test("opening creates the directory with its parents", async () => {
  const directory = join(await setup(), "a", "b", "c");
  const disk = await NodeDisk.open(directory);
  assert.ok((await stat(directory)).isDirectory());
  assert.deepEqual(await disk.list(), []);
});

test("directories are not listed as files", async () => {
  const directory = await setup();
  await mkdir(join(directory, "sub"));
  assert.deepEqual(await (await NodeDisk.open(directory)).list(), []);
});

test("a large write and read arrive whole", async () => {
  const disk = await NodeDisk.open(await setup());
  const bytes = Buffer.alloc(5 * 1024 * 1024, "large");
  const file = await disk.open("a", { create: true });
  await file.write(bytes, 7);
  assert.ok((await file.read(7, bytes.length)).equals(bytes));
  await file.close();
});
