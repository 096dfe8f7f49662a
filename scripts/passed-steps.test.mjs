import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { sourcesId } from "./passed-steps.mjs";

test("sources are the same until a file changes, committed or not, and without git unknown", (t) => {
  const directory = mkdtempSync(join(tmpdir(), "codeq-sources-"));
  t.after(() => rmSync(directory, { recursive: true }));
  assert.equal(sourcesId(directory), undefined);
  spawnSync("git", ["init", "--quiet"], { cwd: directory });
  writeFileSync(join(directory, ".gitignore"), "node_modules/\n");
  const first = sourcesId(directory);
  assert.match(first, /^[0-9a-f]{40,}$/);
  assert.equal(sourcesId(directory), first);
  writeFileSync(join(directory, "new.ts"), "export {};\n");
  assert.notEqual(sourcesId(directory), first);
});
