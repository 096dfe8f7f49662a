import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { isNewEnough, whyInstall } from "./ensure-ready.mjs";

const entry = (version, more = {}) => ({ version, integrity: `sha-${version}`, ...more });

/** A checkout with these two lockfiles; `undefined` leaves one out. */
function setup(t, wanted, installed) {
  const directory = mkdtempSync(join(tmpdir(), "codeq-ready-"));
  t.after(() => rmSync(directory, { recursive: true }));
  mkdirSync(join(directory, "node_modules"));
  const write = (path, packages) => {
    const text = typeof packages === "string" ? packages : JSON.stringify({ packages });
    if (packages !== undefined) writeFileSync(join(directory, path), text);
  };
  write("package-lock.json", wanted);
  write("node_modules/.package-lock.json", installed);
  return directory;
}

test("a checkout without an installation needs one, also after one that was interrupted", (t) => {
  const wanted = { "node_modules/a": entry("1.0.0") };
  assert.match(whyInstall(setup(t, wanted, undefined)), /nothing is installed/);
  assert.match(whyInstall(setup(t, wanted, "{ cut sh")), /nothing is installed/);
});

test("an installation that matches the lockfile is left alone", (t) => {
  const wanted = {
    "": { name: "root" },
    "packages/x": { name: "x" },
    "node_modules/a": entry("1.0.0"),
    "node_modules/@s/x": { resolved: "packages/x", link: true },
    "node_modules/other-platform": entry("2.0.0", { optional: true }),
  };
  const { "node_modules/other-platform": _, "": __, ...installed } = wanted;
  assert.equal(whyInstall(setup(t, wanted, installed)), undefined);
  assert.equal(whyInstall(setup(t, undefined, installed)), undefined);
});

test("a package that is missing or another one than in the lockfile is named", (t) => {
  const wanted = { "node_modules/a": entry("1.0.0"), "node_modules/b": entry("1.0.0") };
  const a = { "node_modules/a": entry("1.0.0") };
  assert.match(whyInstall(setup(t, wanted, a)), /^b is not as in package-lock.json/);
  const older = { ...a, "node_modules/b": entry("0.9.0") };
  assert.match(whyInstall(setup(t, wanted, older)), /^b is not/);
  const swapped = { ...a, "node_modules/b": entry("1.0.0", { integrity: "sha-other" }) };
  assert.match(whyInstall(setup(t, wanted, swapped)), /^b is not/);
});

test("Node is new enough from 22.18 on", () => {
  assert.deepEqual(["v18.20.0", "v20.20.2", "v22.17.9", "v22.18.0\n", "v24.0.0"].map(isNewEnough), [
    false,
    false,
    false,
    true,
    true,
  ]);
});
