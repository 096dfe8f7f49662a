/**
 * What somebody sees who has cloned and installed: one command starts a server that tells how to try
 * it, and what it tells works as it stands.
 */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { ApiClient, type TaskJson } from "./api-client.ts";
import { Child, root, temporaryDirectory } from "./server-process.ts";

/** About 1 s where nothing else runs. A start that compiles takes far longer, and says so. */
const readyMsMax = 30_000;
const run = promisify(execFile);

interface Started {
  readonly child: Child;
  /** Everything that was printed up to the empty line behind the commands. */
  readonly welcome: string;
  readonly tookMs: number;
}

async function start(t: TestContext, dataDir: string): Promise<Started> {
  const startedMs = performance.now();
  const child = new Child(
    spawn(process.execPath, [join(root, "scripts/start.mjs")], {
      cwd: root,
      env: {
        PATH: process.env["PATH"],
        PORT: "0",
        WORKER_STREAM_ADDR: ":0",
        PRODUCER_STREAM_ADDR: ":0",
        CODEQ_DATA_DIR: dataDir,
      },
      stdio: ["ignore", "pipe", "pipe"],
    }),
  );
  // It hands a signal on to the server, which a kill would leave behind.
  t.after(() => {
    child.signal("SIGTERM");
    return child.exited;
  });
  await child.line((line) => line.includes("codeQ is ready"));
  const tookMs = performance.now() - startedMs;
  await child.anyLine((line) => line.includes('"waitSeconds":'));
  return { child, welcome: child.stdout, tookMs };
}

/** The commands that are printed, each with the lines that it goes on over. */
function commandsIn(welcome: string): string[] {
  return [...welcome.matchAll(/^ +(curl (?:.*\\\n)*.*)$/gm)].map((match) => match[1] as string);
}

test("the printed commands work as they are, in any shell", async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const { child, welcome } = await start(t, directory.path);
  const url = /codeQ is ready +(http:\/\/\S+)/.exec(welcome)?.[1] ?? "";
  assert.match(welcome, /dev-token/);
  assert.ok(welcome.includes(`web console          ${url}/\n`), welcome);
  assert.ok(welcome.includes(directory.path), "it tells where the data is");
  assert.match(welcome, /gRPC streams +127\.0\.0\.1:\d+ +127\.0\.0\.1:\d+\n/);
  const [create, claim, ...others] = commandsIn(welcome);
  assert.ok(create !== undefined && claim !== undefined && others.length === 0, welcome);
  assert.ok(create.includes(url) && claim.includes(url));
  const created = JSON.parse((await run("sh", ["-c", create])).stdout) as TaskJson;
  assert.equal(created.status, "PENDING");
  assert.equal(created.payload, '{"name":"world"}');
  const claimed = JSON.parse((await run("sh", ["-c", claim])).stdout) as TaskJson;
  assert.equal(claimed.id, created.id);
  assert.equal(claimed.status, "IN_PROGRESS");
  const { stdout } = await run("curl", ["-s", `${url}/healthz`]);
  assert.equal((JSON.parse(stdout) as { status: string }).status, "ok");
  const api = new ApiClient(Number(new URL(url).port));
  const result = { status: "COMPLETED", result: { hello: "world" } };
  assert.equal((await api.post(`/tasks/${created.id}/result`, result)).status, 200);
  api.close();
  child.signal("SIGTERM");
  const exit = await child.exited;
  assert.equal(exit.code, 0, exit.stderr);
});

test("an installed and compiled server starts without compiling or installing", async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  // The first start compiles when the sources have changed.
  const first = await start(t, join(directory.path, "first"));
  first.child.signal("SIGTERM");
  await first.child.exited;
  const { tookMs, child } = await start(t, join(directory.path, "second"));
  t.diagnostic(`ready after ${Math.round(tookMs)} ms`);
  assert.ok(tookMs < readyMsMax, `it took ${tookMs} ms`);
  assert.doesNotMatch(child.stderr, /compiling|npm/);
});
