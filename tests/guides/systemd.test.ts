/** The units of the guides are such that systemd takes them without a complaint. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { ensureProgram } from "../cli/programs.ts";
import { root, temporaryDirectory } from "../e2e/server-process.ts";
import { blocksOf } from "./marks.ts";

const run = promisify(execFile);

/** What is wrong with the unit, in the words of systemd; it ends with 0 for some mistakes, too. */
async function complaints(unit: string): Promise<string> {
  const directory = temporaryDirectory();
  const path = join(directory.path, "codeq.service");
  // The command is not installed here, and has to be there to be verified.
  const command = join(directory.path, "codeq");
  writeFileSync(command, "#!/bin/sh\n");
  chmodSync(command, 0o755);
  writeFileSync(path, unit.replace("/opt/codeq/node_modules/.bin/codeq", command));
  try {
    const { stdout, stderr } = await run("systemd-analyze", ["verify", "--man=no", path]);
    return stdout + stderr;
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    return stdout + stderr;
  } finally {
    directory.dispose();
  }
}

test("systemd finds nothing wrong with the units", async (t) => {
  if (!(await ensureProgram(t, "systemd-analyze", "systemd"))) return;
  const [worker, block, ...others] = blocksOf("ini");
  assert.ok(worker !== undefined && block !== undefined && others.length === 0);
  assert.equal(await complaints(worker.text), "");
  assert.equal(await complaints(block.text), "");
  const mistyped = block.text.replace("KillMode=process", "KillMode=gentle");
  assert.match(await complaints(mistyped), /kill mode .*gentle/);
  const unknown = block.text.replace("RestartSec=", "RestartSeconds=");
  assert.match(await complaints(unknown), /RestartSeconds/);
});

test("the unit in deploy/systemd is that of the guide", () => {
  const [block] = blocksOf("ini", "docs/guide/deployment.md");
  const [, ...lines] = block?.text.split("\n") ?? [];
  assert.equal(readFileSync(join(root, "deploy/systemd/codeq.service"), "utf8"), lines.join("\n"));
});
