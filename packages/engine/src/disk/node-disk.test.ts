import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { diskContract } from "../../test/disk-contract.ts";
import type { DiskFile } from "./disk.ts";
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

/** Whether a sync ends before anything that another thread does is noticed. */
async function syncsHere(file: DiskFile): Promise<boolean> {
  const ended = Promise.withResolvers<void>();
  const order: string[] = [];
  file.syncThen((error) => {
    assert.equal(error, null);
    order.push("synced");
    ended.resolve();
  });
  order.push("returned");
  await Promise.resolve();
  const isHere = order.length === 2;
  await ended.promise;
  assert.deepEqual(order, ["returned", "synced"]);
  return isHere;
}

test("a disk that has rested is synced without another thread, unless it was slow", async () => {
  const clock = { nowMs: 0, stepMs: 0 };
  const disk = await NodeDisk.open(await setup(), () => (clock.nowMs += clock.stepMs));
  const file = await disk.open("a", { create: true });
  assert.equal(await syncsHere(file), false, "how fast it is was not known");
  assert.equal(await syncsHere(file), false, "it had no rest");
  clock.nowMs += 1;
  assert.equal(await syncsHere(file), true);
  clock.nowMs += 1;
  clock.stepMs = 2;
  assert.equal(await syncsHere(file), true);
  clock.stepMs = 0;
  clock.nowMs += 1;
  assert.equal(await syncsHere(file), false, "the last one took two milliseconds");
  clock.nowMs += 1;
  assert.equal(await syncsHere(file), true);
  await file.close();
});

test("a sync that begins during another one is left to another thread", async () => {
  const clock = { nowMs: 0 };
  const disk = await NodeDisk.open(await setup(), () => clock.nowMs);
  const [one, other] = [await disk.open("a", { create: true }), await disk.open("a")];
  await one.sync();
  const first = one.sync();
  clock.nowMs = 1;
  assert.equal(await syncsHere(other), false);
  await first;
  clock.nowMs = 2;
  assert.equal(await syncsHere(other), true);
  await one.close();
  await other.close();
});
