/**
 * Whatever a user ends, the server ends, in order: with all of its data flushed, its port free and its
 * lock given back. Also as the first process of a container, which ignores signals by default.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { lockDataDir } from "../../packages/server/src/start/open-data-dir.ts";
import { ApiClient } from "./api-client.ts";
import { Child, root, temporaryDirectory } from "./server-process.ts";

const node = process.execPath;
const start = join(root, "scripts/start.mjs");
const codeq = join(root, "packages/cli/bin/codeq.js");
const serve = [codeq, "serve"];

interface Run {
  readonly child: Child;
  readonly dataDir: string;
  readonly port: number;
}

async function run(t: TestContext, command: readonly string[]): Promise<Run> {
  const directory = temporaryDirectory();
  const [program = "", ...args] = command;
  const spawned: ChildProcess = spawn(program, args, {
    cwd: root,
    env: {
      ...{ PATH: process.env["PATH"], HOME: directory.path, LOG_FORMAT: "json" },
      ...{ PORT: "0", WORKER_STREAM_ADDR: ":0", PRODUCER_STREAM_ADDR: ":0" },
      CODEQ_DATA_DIR: join(directory.path, "data"),
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const child = new Child(spawned);
  t.after(async () => {
    await child.kill();
    directory.dispose();
  });
  const line = await child.line((each) => each.includes('"listening"'));
  const { port } = JSON.parse(line) as { port: number };
  return { child, dataDir: join(directory.path, "data"), port };
}

async function createOne(port: number): Promise<void> {
  const api = new ApiClient(port);
  const reply = await api.post("/tasks", { command: "c", payload: 1 });
  api.close();
  assert.equal(reply.status, 202);
}

/** The last words of a server that stopped in order; nothing but its lock tells of a kill. */
async function assertStoppedInOrder(child: Child): Promise<void> {
  await child.anyLine((line) => line.includes('"msg":"stopped"'));
  await child.exited;
}

/** The next server would get both. */
async function assertFree({ dataDir, port }: Run): Promise<void> {
  await using _ = await lockDataDir(dataDir);
  const probe = createServer();
  await once(probe.listen(port, "127.0.0.1"), "listening");
  probe.close();
}

const launchers: Readonly<Record<string, readonly string[]>> = {
  "npm start": ["npm", "start"],
  "scripts/start.mjs": [node, start],
  "codeq serve": [node, ...serve],
};

for (const [name, command] of Object.entries(launchers)) {
  for (const signal of ["SIGKILL", "SIGTERM"] as const) {
    test(`${signal} to ${name} stops the server in order`, async (t) => {
      const running = await run(t, command);
      await createOne(running.port);
      running.child.signal(signal);
      await assertStoppedInOrder(running.child);
      await assertFree(running);
    });
  }
}

test("SIGHUP without certificates is logged and ignored", async (t) => {
  const { child, port } = await run(t, [node, start]);
  const ignored = child.line((line) => line.includes("SIGHUP ignored"));
  child.signal("SIGHUP");
  await ignored;
  await createOne(port);
  child.signal("SIGTERM");
  assert.equal((await child.exited).code, 0);
});

test("nohup npm start goes on when the terminal closes", async (t) => {
  // A closing terminal signals the whole group; npm does not ignore it, even under nohup.
  const { child, port } = await run(t, ["setsid", "nohup", "npm", "start"]);
  try {
    const ignored = child.line((line) => line.includes("SIGHUP ignored"));
    process.kill(-child.pid, "SIGHUP");
    await ignored;
    await child.errorText("the server goes on");
    await createOne(port);
    process.kill(-child.pid, "SIGTERM");
    await assertStoppedInOrder(child);
  } finally {
    if (child.process.stdout?.closed === false) process.kill(-child.pid, "SIGKILL");
  }
});

const main = ["--conditions=source", join(root, "packages/server/src/start/main.ts")];
const asFirst = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
const [unshare = "", ...isolated] = asFirst;
const mayIsolate = spawnSync(unshare, [...isolated, "true"]).status === 0;
const skip = mayIsolate ? false : "this machine does not allow namespaces of processes";

const first: readonly (readonly [name: string, command: readonly string[], NodeJS.Signals])[] = [
  ...Object.entries(launchers).map(([name, command]) => [name, command, "SIGTERM"] as const),
  ["node main", [node, ...main], "SIGTERM"],
  // Both signals take the same way; what the launchers pass on is tested without a container, too.
  ["node main", [node, ...main], "SIGINT"],
];

for (const [name, command, signal] of first) {
  test(`${signal} to ${name} as the first process of a container`, { skip }, async (t) => {
    const { child, port } = await run(t, [...asFirst, ...command]);
    await createOne(port);
    // The one process of the namespace that unshare started is the first there.
    process.kill(childOf(child.pid), signal);
    await assertStoppedInOrder(child);
    assert.equal((await child.exited).code, 0, child.stderr);
  });
}

function childOf(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim());
}
