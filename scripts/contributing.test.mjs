import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { root } from "./ensure-ready.mjs";
import { steps } from "./test-steps.mjs";

const text = readFileSync(join(root, "CONTRIBUTING.md"), "utf8");
const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

test("the files and folders that CONTRIBUTING names exist", () => {
  const named = [...text.matchAll(/`((?:packages|tests|docs|scripts)\/[^`<\s]*)`/g)];
  assert.ok(named.length > 20, `only ${named.length} were found`);
  const missing = named.map(([, path]) => path).filter((path) => !existsSync(join(root, path)));
  assert.deepEqual(missing, []);
});

test("the commands that CONTRIBUTING names exist", () => {
  const named = [...text.matchAll(/npm run ([\w-]+)/g)].map(([, name]) => name);
  assert.deepEqual(
    named.filter((name) => scripts[name] === undefined),
    [],
  );
});

test("CONTRIBUTING has the duration of every step", () => {
  const rows = [...text.matchAll(/^\| (\w+) \| \d+ s \|/gm)].map(([, name]) => name);
  assert.deepEqual(rows.toSorted(), steps.map(({ name }) => name).toSorted());
});
