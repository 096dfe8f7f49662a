/**
 * A server that may have few files open, and more strangers than that: the storage keeps what it needs,
 * and those who are known are served.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { ApiClient } from "./api-client.ts";
import { Child, root, temporaryDirectory } from "./server-process.ts";

const openFilesMax = 400;
const strangersMax = 600;
const main = join(root, "packages/server/src/start/main.ts");

function stranger(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1").on("error", () => {});
  return new Promise((resolve) => {
    socket.once("connect", () => resolve(socket));
    socket.once("close", () => resolve(socket));
  });
}

test("with few open files and many strangers, tasks are created and the storage lives", async (t) => {
  const directory = temporaryDirectory();
  const node = [process.execPath, "--conditions=source", main];
  const args = ["-c", `ulimit -n ${openFilesMax} && exec "$@"`, "sh", ...node];
  const server = new Child(
    spawn("sh", args, {
      cwd: root,
      env: {
        ...{ PATH: process.env["PATH"], CODEQ_DATA_DIR: directory.path },
        ...{ PORT: "0", WORKER_STREAM_ADDR: ":0", PRODUCER_STREAM_ADDR: ":0" },
      },
      stdio: ["ignore", "pipe", "pipe"],
    }),
  );
  const strangers: Socket[] = [];
  t.after(async () => {
    for (const each of strangers) each.destroy();
    await server.kill();
    directory.dispose();
  });
  const line = await server.line((each) => each.includes('"listening"'));
  const ports = JSON.parse(line) as { port: number; workerStreamPort: number };
  assert.match(server.stdout, /the system allows 400 open files, so each listener accepts 60 conn/);
  assert.doesNotMatch(server.stderr, /warning: .*connectionsMax/);
  for (const port of [ports.port, ports.workerStreamPort]) {
    const all = Array.from({ length: strangersMax }, () => stranger(port));
    strangers.push(...(await Promise.all(all)));
  }
  // Enough for the storage to need files of its own: logs, tables, and what makes them smaller.
  const payload = "x".repeat(400_000);
  for (let n = 0; n < 60; n += 1) {
    const api = new ApiClient(ports.port);
    const { status, text } = await api.create({ command: "c", payload });
    assert.equal(status, 202, text);
    api.close();
  }
  server.signal("SIGTERM");
  assert.equal((await server.exited).code, 0, server.stderr);
});
