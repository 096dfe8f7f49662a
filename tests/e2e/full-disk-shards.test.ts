/** The number of shards is changed on a disk without enough room: the old data stays, and it goes on later. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { CliWorld } from "../../packages/cli/test/cli-world.ts";
import { campaignLength } from "../campaign-length.ts";
import { type Contents, fillDirectory, readContents } from "../crash/filled-directory.ts";
import { mebibyte, SmallFileSystem } from "./small-file-system.ts";

/** Undefined when file systems cannot be mounted; the test is then skipped with the reason. */
async function setup(
  t: TestContext,
): Promise<{ files: SmallFileSystem; dataDir: string; before: Contents } | undefined> {
  const files = SmallFileSystem.mount(640 * mebibyte);
  if (typeof files === "string") {
    // Needs the right to mount.
    t.skip(files);
    return undefined;
  }
  t.after(() => files.unmount());
  const dataDir = join(files.path, "data");
  await fillDirectory(dataDir, 1200);
  return { files, dataDir, before: await readContents(dataDir, 1) };
}

/** How much room there is left for the new stores, each of which prepares a log of 64 MiB. */
const someRoom: readonly (readonly [leftMiB: number, minFreeBytes: number])[] = [
  [1, 64 * mebibyte],
  [215, 64 * mebibyte],
  [66, 0],
];
const everyRoom: typeof someRoom = [...someRoom, [80, 64 * mebibyte], [0, 0], [195, 0], [258, 0]];

for (const [leftMiB, minFreeBytes] of campaignLength({ short: someRoom, long: everyRoom })) {
  const name = `with ${leftMiB} MiB left of at least ${minFreeBytes} bytes nothing is lost`;
  test(`${name}, and the change can be finished`, async (t) => {
    const world = await setup(t);
    if (world === undefined) return;
    const { files, dataDir, before } = world;
    using cli = new CliWorld();
    files.fill(files.freeBytes() - leftMiB * mebibyte);
    const argv = ["shards", "migrate", "--to", "3", "--data-dir", dataDir];
    const least = ["--min-free-disk-bytes", String(minFreeBytes)];
    const full = await cli.run(...argv, ...least);
    t.diagnostic(full.errors.trim().split("\n").join(" | "));
    if (full.code !== 0) {
      assert.equal(full.code, 28, full.errors);
      assert.match(full.errors, /free some space and run the command again/);
    }
    files.empty();
    const done = await cli.run(...argv, "--json");
    assert.equal(done.code, 0, done.errors);
    const after = await readContents(dataDir, 3);
    assert.deepEqual(after.entries, before.entries);
  });
}
