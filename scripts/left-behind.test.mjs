import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  watch,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { root } from "./ensure-ready.mjs";
import { processesOf, removeAll } from "./left-behind.mjs";

const env = { ...process.env, NODE_TEST_CONTEXT: undefined };

const hangs = `
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { test } from "node:test";
test("hangs", () => new Promise(() => {
  spawn("sleep", ["600"], { detached: true, stdio: "ignore" });
  writeFileSync(import.meta.filename + ".up", JSON.stringify(tmpdir()));
  setInterval(() => {}, 1000);
}));`;

for (const signal of ["SIGTERM", "SIGKILL"]) {
  test(`a run that ends by ${signal} leaves no process and no folder`, async (t) => {
    const own = mkdtempSync(join(tmpdir(), "codeq-planted-"));
    t.after(() => rmSync(own, { recursive: true, force: true }));
    const file = join(own, "planted.test.mjs");
    writeFileSync(file, hangs);
    const args = [join(root, "scripts/test.mjs"), file];
    const run = spawn(process.execPath, args, { cwd: root, stdio: "ignore", env });
    t.after(() => run.kill("SIGKILL"));
    const ended = new Promise((resolve) => run.once("close", resolve));
    const folder = await until(own, () => parsed(`${file}.up`));
    // The runner of the tests, the file, and what it started.
    assert.equal(processesOf(folder).length, 3);
    run.kill(signal);
    await ended;
    await until(dirname(folder), () => !existsSync(folder));
    assert.deepEqual(processesOf(folder), []);
  });
}

test("a file system that a killed run has mounted is unmounted", (t) => {
  const own = mkdtempSync(join(tmpdir(), "codeq-planted-"));
  t.after(() => removeAll(own));
  const small = join(own, "small");
  mkdirSync(small);
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", small]);
  if (mounted.status !== 0) return t.skip("mounting a file system needs root and Linux");
  writeFileSync(join(small, "file"), "");
  removeAll(own);
  assert.equal(existsSync(own), false);
});

function parsed(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    // Not written as a whole yet.
    return undefined;
  }
}

/** Looks again whenever something in the folder changes. */
function until(folder, holds) {
  return new Promise((resolve) => {
    const look = () => {
      const found = holds();
      if (!found) return;
      watcher.close();
      resolve(found);
    };
    const watcher = watch(folder, look);
    look();
  });
}
