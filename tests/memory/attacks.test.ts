/** What hostile clients make the server hold is bounded; the server is a process of its own. */
import assert from "node:assert/strict";
import { platform } from "node:os";
import { type TestContext, test } from "node:test";
import { TlsWorld } from "../../packages/server/test/tls-files.ts";
import { attackCalled } from "../connections/hostile/attacks.ts";
import { Crowd } from "../connections/hostile/crowd.ts";
import { HealthyClient } from "../connections/hostile/healthy-client.ts";
import { startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { residentBytes } from "./memory-group.ts";

const mebibyte = 1024 * 1024;
/**
 * With this much more than at rest (about 60 MiB), a server that may use 512 MiB has room left. The allocator does not give
 * back at once what an attack before it held, so the sum counts. Without budgets a single attack takes gigabytes.
 */
const grownBytesMax = 384 * mebibyte;
const token = "dev-token";

const attacksOn = {
  http: [
    ["idle", 500],
    ["half-bodies", 200],
    ["half-sign-ins", 200],
    ["half-strays", 200],
    ["half-refused", 200],
    ["tiny-chunks", 8],
    ["early-requests", 1000],
    ["gzip-bomb", 2],
    ["endless-headers", 10],
  ],
  // On a server of its own: its budget is for the whole server, and the allocator still holds what came before it.
  "http without reading": [
    ["unread-pages", 500],
    ["unread-answers", 500],
  ],
  // The most that may be sent before a caller is known.
  "5,000 connections over http": [["half-headers", 5000]],
  "5,000 connections over gRPC": [["grpc-unfinished-frames", 5000]],
  gRPC: [
    ["grpc-idle", 500],
    ["grpc-many-calls", 100],
    ["grpc-many-watches", 50],
    ["grpc-full-headers", 20],
    ["grpc-large-hellos", 2],
    ["grpc-large-checks", 2],
    ["grpc-large-questions", 2],
    ["grpc-held-hellos", 200],
    ["grpc-large-messages", 8],
    ["grpc-compressed", 2],
    ["grpc-header-bomb", 4],
    ["grpc-endless-headers", 10],
    ["grpc-unread-pages", 100],
    ["grpc-unread-over-http1", 150],
    ["grpc-half-headers-over-http1", 150],
  ],
} as const;

/** A connection with TLS takes four times as much, and what is sent is encrypted for each client. */
const attacksWithTls = {
  http: [
    ["tls-half-hellos", 300],
    ["half-headers", 1000],
    ["unread-pages", 300],
  ],
  gRPC: [["grpc-unfinished-frames", 1000]],
} as const;

// Only Linux tells how much memory is a process's own.
const skip = platform() !== "linux";
for (const [transport, attacks] of Object.entries(attacksOn)) {
  test(`attacks over ${transport} leave memory bounded`, { skip }, (t) => measure(t, attacks));
}
for (const [transport, attacks] of Object.entries(attacksWithTls)) {
  test(`attacks over ${transport} with TLS leave memory bounded`, { skip }, (t) => {
    const files = new TlsWorld(t);
    files.writeServer(files.issue("server"));
    return measure(t, attacks, files);
  });
}

async function measure(
  t: TestContext,
  attacks: readonly (readonly [string, number])[],
  files?: TlsWorld,
): Promise<void> {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const server = await startServer({
    dataDir: directory.path,
    env: {
      CODEQ_DURABILITY: "os",
      WORKER_STREAM_ADDR: ":0",
      CODEQ_MEMORY_BYTES: String(512 * mebibyte),
      // What Node chooses in a container with this limit.
      NODE_OPTIONS: "--max-old-space-size=256",
      ...files?.env,
    },
  });
  t.after(() => server.kill());
  const listening = await server.anyLine((line) => line.includes('"listening"'));
  const { workerStreamPort: grpc } = JSON.parse(listening) as { workerStreamPort: number };
  const target = { http: server.port, grpc, token, ca: files?.ca.cert };
  const client = await HealthyClient.open(target);
  t.after(() => client.close());
  await client.work({ rounds: 20 });
  const before = residentBytes(server.pid);
  for (const [name, size] of attacks) {
    const attack = attackCalled(name);
    const play = attack.play(token);
    const isSecure = files !== undefined && attack.isBelowTls !== true;
    const crowd = new Crowd({ port: target[attack.port], size, play, isSecure, reopens: true });
    await crowd.start();
    await client.work({ rounds: 5 });
    const grown = residentBytes(server.pid) - before;
    t.diagnostic(`${name}: ${Math.round(grown / mebibyte)} MiB more than before the first`);
    crowd.stop();
    assert.ok(grown < grownBytesMax, `${name}: ${Math.round(grown / mebibyte)} MiB`);
  }
  await client.work({ rounds: 5 });
}
