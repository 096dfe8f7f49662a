/** What hostile clients make the server hold is bounded; the server is a process of its own. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { platform } from "node:os";
import { test } from "node:test";
import { attackCalled } from "../connections/hostile/attacks.ts";
import { Crowd } from "../connections/hostile/crowd.ts";
import { HealthyClient } from "../connections/hostile/healthy-client.ts";
import { startServer, temporaryDirectory } from "../e2e/server-process.ts";

const mebibyte = 1024 * 1024;
/** A single body that was unpacked would be four times as much. */
const grownBytesMax = 256 * mebibyte;
const token = "dev-token";

function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
}

// Only Linux tells how much memory is a process's own.
test("attacks leave memory bounded", { skip: platform() !== "linux" }, async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const server = await startServer({
    dataDir: directory.path,
    env: { CODEQ_DURABILITY: "os", WORKER_STREAM_ADDR: ":0" },
  });
  t.after(() => server.kill());
  const listening = await server.anyLine((line) => line.includes('"listening"'));
  const { workerStreamPort: grpc } = JSON.parse(listening) as { workerStreamPort: number };
  const target = { http: server.port, grpc, token };
  const client = await HealthyClient.open(target);
  t.after(() => client.close());
  await client.work({ rounds: 20 });
  const before = residentBytes(server.pid);
  for (const [name, size] of [
    ["idle", 500],
    ["grpc-idle", 500],
    ["grpc-many-calls", 8],
    ["gzip-bomb", 2],
    ["grpc-compressed", 2],
    ["grpc-header-bomb", 4],
    ["endless-headers", 10],
    ["grpc-endless-headers", 10],
  ] as const) {
    const attack = attackCalled(name);
    const play = attack.play(token);
    const crowd = new Crowd({ port: target[attack.port], size, play, reopens: true });
    await crowd.start();
    await client.work({ rounds: 5 });
    const grown = residentBytes(server.pid) - before;
    t.diagnostic(`${name}: ${Math.round(grown / mebibyte)} MiB more than before the first`);
    crowd.stop();
    assert.ok(grown < grownBytesMax, `${name}: ${Math.round(grown / mebibyte)} MiB`);
  }
  await client.work({ rounds: 5 });
});
