/** What the pages tell readers to paste as a whole does what they say, against a fresh server. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { text as readAll } from "node:stream/consumers";
import test, { type TestContext } from "node:test";
import { startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { blocksOf } from "./marks.ts";

const tours = blocksOf("sh tour");

/** The lines that the tour of a page prints. */
async function tour(t: TestContext, page: string): Promise<string[]> {
  const [commands, ...others] = tours.filter((block) => block.page === page);
  assert.ok(commands !== undefined && others.length === 0, `${page} has one tour`);
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const server = await startServer({ dataDir: directory.path });
  t.after(() => server.kill());
  const shell = spawn("bash", ["-euo", "pipefail", "-c", commands.text], {
    env: { PATH: process.env["PATH"], PORT: String(server.port) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  return (await readAll(shell.stdout)).trim().split("\n");
}

test("every tour has a test here", () => {
  assert.deepEqual(
    tours.map(({ page }) => page),
    ["docs/guide/api-keys.md", "docs/guide/http-api.md"],
  );
});

test("the tour of the HTTP API does what it says", async (t) => {
  const lines = await tour(t, "docs/guide/http-api.md");
  const [, id] = /^enqueued ([0-9a-f-]{36})$/.exec(lines[0] ?? "") ?? [];
  assert.ok(id !== undefined, lines.join("\n"));
  const [claimed, beat, submitted, read, stats] = lines.slice(1).map((line) => JSON.parse(line));
  assert.equal(claimed.id, id);
  assert.equal(claimed.status, "IN_PROGRESS");
  assert.deepEqual(beat, { ok: true });
  assert.equal(submitted.status, "COMPLETED");
  assert.deepEqual(read.result, submitted);
  assert.equal(read.task.status, "COMPLETED");
  const none = { ready: 0, delayed: 0, inProgress: 0, dlq: 0, failed: 0 };
  assert.deepEqual(stats, { command: "resize", ...none });
});

test("the tour of API keys does what it says", async (t) => {
  const lines = await tour(t, "docs/guide/api-keys.md");
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
