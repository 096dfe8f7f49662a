import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { isUnsettled, replaceStores, settleStores } from "./replace-stores.ts";

const result = { tasks: 7 };
/** Files of stores. Only the old ones have a note, and only the new ones a witness. */
const old = { "kv/1.ldb": "old", "shard-0/kv/1.ldb": "old", "store.json": "old" };
const fresh = { "kv/1.ldb": "new", "shard-1/kv/1.ldb": "new", witness: "new" };

function setup(context: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), "codeq-replace-"));
  context.after(() => rmSync(directory, { recursive: true, force: true }));
  write(directory, old);
  return directory;
}

function write(directory: string, files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries({ ...files, "lock/LOCK": "" })) {
    mkdirSync(join(directory, path, ".."), { recursive: true });
    writeFileSync(join(directory, path), text);
  }
}

function filesIn(directory: string): Record<string, string> {
  const found = readdirSync(directory, { recursive: true, withFileTypes: true });
  const paths = found
    .filter((each) => each.isFile() && each.name !== "LOCK")
    .map(({ parentPath, name }) => join(parentPath, name));
  const texts = paths.map((path) => [path.slice(directory.length + 1), readFileSync(path, "utf8")]);
  return Object.fromEntries(texts.sort());
}

/** Stops after so many steps; returns the last one, or undefined when there are fewer. */
async function replaceUntil(
  directory: string,
  { steps, before }: { readonly steps: number; readonly before: string | undefined },
): Promise<string | undefined> {
  const stopped = new Error("stopped");
  const seen: string[] = [];
  const onStep = (what: string): void => {
    seen.push(what);
    if (seen.length === steps) throw stopped;
  };
  const fill = async (folder: string): Promise<typeof result> => {
    write(folder, fresh);
    onStep("filled");
    return result;
  };
  const replaced = ["kv", "log", "witness", "store.json", "shard-0"];
  const parts = { fill, replaced, onStep, ...(before === undefined ? {} : { before }) };
  try {
    assert.equal(await replaceStores(directory, parts), result);
    return undefined;
  } catch (error) {
    assert.equal(error, stopped);
    return seen.at(-1);
  }
}

for (const before of [undefined, "before"]) {
  const kept = before === undefined ? "deleted" : "kept";
  test(`a crash at any step leaves the old stores, or the new ones with the old ${kept}`, async (context) => {
    const oldInFolder = Object.entries(old).map(([path, text]) => [join("before", path), text]);
    const replaced = { ...fresh, ...(before && Object.fromEntries(oldInFolder)) };
    let expected: Record<string, string> = old;
    for (let steps = 1; ; steps += 1) {
      const directory = setup(context);
      const last = await replaceUntil(directory, { steps, before });
      if (last === "new-stores complete") expected = replaced;
      const isLeft = expected === replaced && last !== undefined && last !== "stores replaced";
      assert.deepEqual(settleStores(directory), isLeft ? result : undefined, last);
      assert.equal(settleStores(directory), undefined);
      assert.equal(isUnsettled(directory), false);
      assert.deepEqual(filesIn(directory), expected, last);
      if (last === undefined) break;
    }
    assert.equal(expected, replaced);
  });
}

test("new stores without any data beside them are those of a restore, which has to be repeated", async (context) => {
  const directory = setup(context);
  await replaceUntil(directory, { steps: 1, before: undefined });
  for (const name of Object.keys(old)) rmSync(join(directory, name));
  rmSync(join(directory, "kv"), { recursive: true });
  assert.throws(() => settleStores(directory), /a restore into .* did not finish/);
  assert.equal(await replaceUntil(directory, { steps: 99, before: undefined }), undefined);
  assert.deepEqual(filesIn(directory), fresh);
});

test("a disk without space is reported as such, and the old stores stay", async (context) => {
  const directory = setup(context);
  const full = Object.assign(new Error("ENOSPC"), { code: "ENOSPC" });
  const replacing = replaceStores(directory, {
    replaced: ["kv"],
    fill: () => Promise.reject(full),
  });
  await assert.rejects(replacing, { code: "disk_full" });
  settleStores(directory);
  assert.deepEqual(filesIn(directory), old);
});
