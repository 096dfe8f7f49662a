import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { rules } from "./rules.ts";
import type { SourceFile } from "./source-file.ts";

const root = join(import.meta.dirname, "../..");
const notOurs = new Set(["node_modules", "dist", "data", ".git", "test-results"]);
const texts =
  /(\.(tsx?|mjs|js|json|md|ya?ml|proto|html|css|sh|toml|txt)|\/run|\/\.\w+|Dockerfile)$/;

function* filesUnder(directory: string): Generator<string> {
  for (const entry of readdirSync(join(root, directory), { withFileTypes: true })) {
    if (notOurs.has(entry.name)) continue;
    const path = directory === "" ? entry.name : `${directory}/${entry.name}`;
    if (entry.isDirectory()) yield* filesUnder(path);
    else if (entry.isFile() && texts.test(`/${path}`)) yield path;
  }
}

const files: SourceFile[] = [...filesUnder("")].map((path) => ({
  path,
  text: readFileSync(join(root, path), "utf8"),
}));

test("the tree has files to look at", () => {
  assert.ok(files.some(({ path }) => path === "packages/server/src/config/setting-table.ts"));
  assert.ok(files.some(({ path }) => path === ".ci/run"));
  assert.ok(files.some(({ path }) => path === "package-lock.json"));
});

for (const [name, rule] of Object.entries(rules)) {
  test(`tidy: ${name}`, () => {
    const offences = files.flatMap((file) => rule(file).map((what) => `${file.path} ${what}`));
    assert.deepEqual(offences, []);
  });
}
