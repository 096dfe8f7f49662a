import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { lockGaps } from "./complete-lock.mjs";
import { root } from "./ensure-ready.mjs";

const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
const entries = Object.entries(lock.packages).filter(
  ([path, { link }]) => path.startsWith("node_modules/") && link !== true,
);

test("every package has a hash in the lockfile, also those for other platforms", () => {
  const names = lockGaps(lock).map(({ name }) => name);
  assert.deepEqual(names, []);
});

test("hashes are strong, and versions are exact", () => {
  for (const [path, { version, integrity }] of entries) {
    assert.match(version, /^\d+\.\d+\.\d+(-[\w.]+)?$/, path);
    if (integrity !== undefined) assert.match(integrity, /^sha512-[\w+/]{86}==$/, path);
  }
});

test("the lockfile names no registry", () => {
  assert.equal(lock.lockfileVersion, 3);
  for (const [path, { resolved }] of entries) assert.equal(resolved, undefined, path);
});

test("packages with install scripts are known to work without them", () => {
  const withScripts = entries.filter(([, each]) => each.hasInstallScript).map(([path]) => path);
  assert.deepEqual(withScripts, [
    "node_modules/classic-level",
    "node_modules/esbuild",
    "node_modules/msgpackr-extract",
    "node_modules/protobufjs",
  ]);
  assert.match(readFileSync(join(root, ".npmrc"), "utf8"), /^ignore-scripts=true$/m);
});
