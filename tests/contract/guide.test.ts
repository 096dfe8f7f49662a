/** What the guides tell readers to paste does what they say, with the server as its own process. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { text as readAll } from "node:stream/consumers";
import test, { type TestContext } from "node:test";
import { root, startServer, temporaryDirectory } from "../e2e/server-process.ts";

/** The lines that the tour of a guide prints, run against a fresh server. */
async function tour(t: TestContext, guide: string): Promise<string[]> {
  const page = readFileSync(join(root, "docs/guide", guide), "utf8");
  const commands = /^```sh tour\n([\s\S]*?)^```$/m.exec(page)?.[1];
  assert.ok(commands !== undefined, `${guide} has no tour`);
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const server = await startServer({ dataDir: directory.path });
  t.after(() => server.kill());
  const shell = spawn("bash", ["-euo", "pipefail", "-c", commands], {
    env: { PATH: process.env["PATH"], PORT: String(server.port) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  return (await readAll(shell.stdout)).trim().split("\n");
}

test("the tour of API keys does what it says", async (t) => {
  const lines = await tour(t, "api-keys.md");
  const [claimed, print, create, list, status, revoked, audit, ...others] = lines;
  assert.deepEqual(others, []);
  const { keys } = JSON.parse(list ?? "");
  assert.deepEqual([keys.length, keys[0].name], [1, "resizer on host 7"]);
  assert.equal(typeof keys[0].lastUsedAt, "string");
  const task = JSON.parse(claimed ?? "");
  assert.deepEqual([task.command, task.workerId], ["resize", keys[0].id]);
  assert.equal(JSON.parse(print ?? "").error, "event type not allowed");
  assert.equal(JSON.parse(create ?? "").error, "missing scope");
  assert.equal(status, "204");
  assert.equal(JSON.parse(revoked ?? "").error, "invalid token");
  const [record, ...more] = JSON.parse(audit ?? "").records;
  assert.deepEqual(more, []);
  assert.deepEqual([record.target, record.detail], [keys[0].id, "resizer on host 7"]);
});
