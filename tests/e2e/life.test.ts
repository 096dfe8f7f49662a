/** How the server starts, refuses to start, and stops, as an operator sees it: signals and codes. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, statSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { ApiClient, type TaskJson } from "./api-client.ts";
import {
  endOfServer,
  type ServerOptions,
  type ServerProcess,
  spawnServer,
  startServer,
  temporaryDirectory,
} from "./server-process.ts";
import { UnfinishedRequest } from "./unfinished-request.ts";

/** After this time a webhook without an answer is given up, whether the server stops or not. */
const webhookMsMax = 15_000;

interface World {
  readonly dataDir: string;
  readonly server: ServerProcess;
  readonly api: ApiClient;
}

function directoryFor(t: TestContext): string {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  return directory.path;
}

async function startIn(
  t: TestContext,
  dataDir: string,
  options: Omit<ServerOptions, "dataDir"> = {},
): Promise<World> {
  const server = await startServer({ dataDir, ...options });
  const api = new ApiClient(server.port, 64);
  t.after(async () => {
    api.close();
    await server.kill();
  });
  return { dataDir, server, api };
}

function setup(t: TestContext, options: Omit<ServerOptions, "dataDir"> = {}): Promise<World> {
  return startIn(t, directoryFor(t), options);
}

async function createOne(api: ApiClient, number: number): Promise<string> {
  const reply = await api.create({ command: "c", payload: { number } });
  assert.equal(reply.status, 202, reply.text);
  return (JSON.parse(reply.text) as TaskJson).id;
}

/** Asks for the number of waiting calls until it is as wanted; there is no event for that. */
async function untilWaiting(api: ApiClient, wanted: number): Promise<void> {
  for (;;) {
    const { text } = await api.page("/metrics");
    const counts = [...text.matchAll(/^codeq_waiters\{[^}]*\} (\d+)$/gm)].map((row) => row[1]);
    if (counts.reduce((sum, count) => sum + Number(count), 0) === wanted) return;
  }
}

async function assertAllThere(api: ApiClient, ids: Iterable<string>): Promise<void> {
  for (const id of ids) assert.notEqual(await api.task(id), undefined, `${id} is gone`);
}

test("SIGTERM under load answers what is in flight, ends waits and keeps everything", async (t) => {
  const { dataDir, server, api } = await setup(t);
  const first = await createOne(api, 0);
  assert.equal((await api.post("/tasks/claim", {})).status, 200);
  const polls = Array.from({ length: 5 }, () =>
    api.post("/tasks/claim", { commands: ["idle"], waitSeconds: 30 }),
  );
  const resultPoll = api.get(`/tasks/${first}/result?waitSeconds=60`);
  await untilWaiting(api, polls.length + 1);
  const body = `{"command":"c","payload":{"half":"${"x".repeat(1000)}"}}`;
  const unfinished = await UnfinishedRequest.open(server.port, "/tasks", body);
  const acknowledged: string[] = [];
  let isStopping = false;
  const load = Array.from({ length: 20 }, async (_each, client) => {
    for (let number = 0; ; number += 1) {
      try {
        acknowledged.push(await createOne(api, client * 10_000 + number));
      } catch (error) {
        assert.ok(isStopping, `a request failed before the signal: ${String(error)}`);
        return;
      }
      if (acknowledged.length === 500) {
        isStopping = true;
        server.signal("SIGTERM");
      }
    }
  });
  await server.anyLine((line) => line.includes('"stopping"'));
  for (const reply of await Promise.all(polls)) assert.equal(reply.status, 204, reply.text);
  assert.equal((await resultPoll).status, 404);
  assert.equal(await unfinished.finish(), 202);
  await Promise.all(load);
  const exit = await server.exited;
  assert.equal(exit.code, 0, exit.stderr);
  assert.match(exit.stdout, /"stopped"/);
  assert.doesNotMatch(exit.stdout, /grace period is over/);
  assert.ok(acknowledged.length >= 500);
  const next = await startIn(t, dataDir);
  await assertAllThere(next.api, [first, ...acknowledged]);
  const { text } = await next.api.get("/admin/queues/c");
  const { ready, inProgress } = JSON.parse(text) as { ready: number; inProgress: number };
  // Those cut off without an answer may be there, too.
  assert.ok(ready >= acknowledged.length + 1 && ready <= acknowledged.length + 1 + load.length);
  assert.equal(inProgress, 1);
});

test("a claim that a stopping server cannot answer any more leaves no task behind", async (t) => {
  const { dataDir, server, api } = await setup(t);
  const poll = api.post("/tasks/claim", { commands: ["late"], waitSeconds: 30 });
  await untilWaiting(api, 1);
  const exit = server.stop();
  assert.equal((await poll).status, 204);
  assert.equal((await exit).code, 0);
  const next = await startIn(t, dataDir);
  await next.api.create({ command: "late", payload: 1 });
  assert.equal((await next.api.post("/tasks/claim", { commands: ["late"] })).status, 200);
});

test("a client that never finishes its request delays the end by the grace at most", async (t) => {
  const { dataDir, server, api } = await setup(t, { env: { CODEQ_SHUTDOWN_GRACE_SECONDS: "1" } });
  const id = await createOne(api, 1);
  const stuck = await UnfinishedRequest.open(server.port, "/tasks", `{"command":"c","payload":1}`);
  t.after(() => stuck.destroy());
  const startedMs = performance.now();
  const exit = await server.stop();
  const tookMs = performance.now() - startedMs;
  assert.equal(exit.code, 0, exit.stderr);
  assert.match(exit.stdout, /grace period is over/);
  assert.ok(tookMs >= 900, `it took ${tookMs} ms`);
  await stuck.closed;
  await assertAllThere((await startIn(t, dataDir)).api, [id]);
});

test("a webhook that never answers delays the end by the grace at most, and is sent again", async (t) => {
  let calls = 0;
  const receiver = createHttpServer((_request, response) => {
    calls += 1;
    // The first call is left hanging.
    if (calls > 1) response.end();
  });
  t.after(() => {
    receiver.close();
    receiver.closeAllConnections();
  });
  await once(receiver.listen(0, "127.0.0.1"), "listening");
  const webhook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const env = { CODEQ_SHUTDOWN_GRACE_SECONDS: "1", CODEQ_WEBHOOK_ALLOW_PRIVATE_NETWORKS: "true" };
  const { dataDir, server, api } = await setup(t, { env });
  await api.create({ command: "c", payload: 1, webhook });
  const claimed = JSON.parse((await api.post("/tasks/claim", {})).text) as TaskJson;
  const called = once(receiver, "request");
  const submit = { status: "COMPLETED", result: { ok: true } };
  assert.equal((await api.post(`/tasks/${claimed.id}/result`, submit)).status, 200);
  await called;
  const startedMs = performance.now();
  const exit = await server.stop();
  const tookMs = performance.now() - startedMs;
  assert.equal(exit.code, 0, exit.stderr);
  assert.ok(tookMs < webhookMsMax, `it took ${tookMs} ms`);
  const calledAgain = once(receiver, "request");
  await startIn(t, dataDir, { env });
  await calledAgain;
});

test("copies of one signal are one signal", async (t) => {
  const { server, api } = await setup(t, { env: { CODEQ_SHUTDOWN_GRACE_SECONDS: "1" } });
  const stuck = await UnfinishedRequest.open(server.port, "/tasks", `{"command":"c","payload":1}`);
  t.after(() => stuck.destroy());
  await createOne(api, 1);
  for (let copy = 0; copy < 3; copy += 1) server.signal("SIGTERM");
  const exit = await server.exited;
  assert.equal(exit.code, 0, exit.stderr);
});

test("a second signal ends the server at once, and the next start recovers", async (t) => {
  const { dataDir, server, api } = await setup(t, { env: { CODEQ_SHUTDOWN_GRACE_SECONDS: "600" } });
  const stuck = await UnfinishedRequest.open(server.port, "/tasks", `{"command":"c","payload":1}`);
  t.after(() => stuck.destroy());
  const ids = await Promise.all(Array.from({ length: 100 }, (_each, at) => createOne(api, at)));
  const stopping = server.line((line) => line.includes('"stopping"'));
  server.signal("SIGINT");
  await stopping;
  server.signal("SIGTERM");
  const exit = await server.exited;
  assert.equal(exit.code, 1);
  assert.match(exit.stderr, /SIGTERM again/);
  await assertAllThere((await startIn(t, dataDir)).api, ids);
});

test("a new data directory is closed to other users of the machine", async (t) => {
  const { dataDir } = await setup(t);
  assert.equal(statSync(dataDir).mode & 0o007, 0);
});

test("a second server on the same directory is refused with the directory and the pid", async (t) => {
  const { dataDir, server, api } = await setup(t);
  const exit = await endOfServer({ dataDir });
  assert.equal(exit.code, 3, exit.stderr);
  assert.ok(exit.stderr.includes(dataDir), exit.stderr);
  assert.match(exit.stderr, new RegExp(`\\bpid ${server.pid}\\b`));
  assert.doesNotMatch(exit.stderr, /^\s+at /m);
  await createOne(api, 1);
  await server.stop();
  await startIn(t, dataDir);
});

test("a data directory that cannot be used is refused with what to change", async (t) => {
  const file = join(directoryFor(t), "file");
  writeFileSync(file, "");
  for (const dataDir of [file, join(file, "below")]) {
    const exit = await endOfServer({ dataDir });
    assert.equal(exit.code, 4, exit.stderr);
    assert.match(exit.stderr, /the data directory .*file.* cannot be used: .*CODEQ_DATA_DIR/);
    assert.doesNotMatch(exit.stderr, /^\s+at /m);
  }
});

test("a data directory below /proc is refused, and does not hang", {
  skip: process.platform === "linux" ? false : "only Linux has /proc",
}, async (t) => {
  for (const dataDir of ["/proc/codeq", "/proc/codeq/below"]) {
    const server = spawnServer({ dataDir });
    t.after(() => server.kill());
    const exit = await server.exited;
    assert.equal(exit.code, 4, exit.stderr);
    assert.match(
      exit.stderr,
      /the data directory \/proc\/codeq.* cannot be used: .*CODEQ_DATA_DIR/,
    );
    assert.equal(exit.stdout, "", "and nothing else is said at default settings");
  }
});

async function takenPort(t: TestContext): Promise<number> {
  const other = createServer();
  t.after(() => other.close());
  await once(other.listen(0, "127.0.0.1"), "listening");
  return (other.address() as AddressInfo).port;
}

test("ports that are taken are refused all at once, each with its setting, and the data can be used afterwards", async (t) => {
  const dataDir = directoryFor(t);
  const [http, worker, producer] = [await takenPort(t), await takenPort(t), await takenPort(t)];
  const exit = await endOfServer({
    dataDir,
    env: {
      PORT: String(http),
      WORKER_STREAM_ADDR: `:${worker}`,
      PRODUCER_STREAM_ADDR: `127.0.0.1:${producer}`,
    },
  });
  assert.equal(exit.code, 5, exit.stderr);
  for (const [port, text] of [
    [http, "for HTTP: .* in use .* Set PORT \\(--port\\) "],
    [worker, "for gRPC streams: .* in use .* WORKER_STREAM_ADDR \\(--worker-stream-addr\\) .* off"],
    [producer, "for gRPC streams: .* in use .* PRODUCER_STREAM_ADDR .* off"],
  ] as const) {
    assert.match(exit.stderr, new RegExp(`cannot listen on 127\\.0\\.0\\.1:${port} ${text}`));
  }
  assert.doesNotMatch(exit.stderr, /^\s+at /m);
  await startIn(t, dataDir);
});

test("an address that is not this machine's is refused with what to change", async (t) => {
  const dataDir = directoryFor(t);
  const exit = await endOfServer({ dataDir, env: { WORKER_STREAM_ADDR: "192.0.2.1:0" } });
  assert.equal(exit.code, 5, exit.stderr);
  assert.match(exit.stderr, /192\.0\.2\.1:0 for gRPC streams: .*WORKER_STREAM_ADDR or HOST/);
});

test("the streams listen by default, and off turns each of them off", async (t) => {
  const { server } = await setup(t);
  assert.ok(server.workerStreamPort > 0 && server.producerStreamPort > 0);
  assert.notEqual(server.workerStreamPort, server.producerStreamPort);
  const half = await setup(t, { env: { WORKER_STREAM_ADDR: "off" } });
  assert.equal(half.server.workerStreamPort, undefined);
  assert.ok(half.server.producerStreamPort > 0);
  const address = `127.0.0.1:${half.server.producerStreamPort}`;
  assert.ok(half.server.stdout.includes('"listening"'));
  await half.server.anyLine((line) => line.includes(`gRPC streams         ${address}`));
});

test("a bad configuration is refused with all of its problems at once", async (t) => {
  const dataDir = directoryFor(t);
  const env = { PORT: "eighty", CODEQ_DURABILITY: "sometimes", DEFAULT_LEASE_SECONDS: "-3" };
  const exit = await endOfServer({ dataDir, env, args: ["--log-levle=info"] });
  assert.equal(exit.code, 2, exit.stderr);
  for (const word of ["PORT", "eighty", "DURABILITY", "sometimes", "LEASE", "log-levle"]) {
    assert.ok(exit.stderr.includes(word), `${word} is not in ${exit.stderr}`);
  }
  assert.match(exit.stderr, /4 problem/);
  assert.equal(existsSync(join(dataDir, "kv")), false, "nothing was opened");
});

test("--help tells the settings and starts nothing", async (t) => {
  const dataDir = directoryFor(t);
  const exit = await endOfServer({ dataDir, args: ["--help"] });
  assert.equal(exit.code, 0);
  for (const word of ["PORT", "CODEQ_DATA_DIR", "--durability"]) {
    assert.ok(exit.stdout.includes(word), `${word} is not in the help`);
  }
  assert.equal(existsSync(join(dataDir, "kv")), false);
});

test("PORT and CODEQ_DATA_DIR are used, and a missing directory is made", async (t) => {
  const dataDir = join(directoryFor(t), "not", "there", "yet");
  const probe = createServer();
  await once(probe.listen(0, "127.0.0.1"), "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  const { server, api } = await startIn(t, dataDir, { env: { PORT: String(port) } });
  assert.equal(server.port, port);
  assert.equal((await api.page("/healthz")).status, 200);
  assert.ok(existsSync(join(dataDir, "kv")) && existsSync(join(dataDir, "log")));
});

test("flags win over the environment", async (t) => {
  const dataDir = directoryFor(t);
  const { api } = await startIn(t, dataDir, {
    env: { CODEQ_DURABILITY: "os" },
    args: ["--durability=interval"],
  });
  const health = JSON.parse((await api.page("/healthz")).text) as { durability: string };
  assert.equal(health.durability, "interval");
});

test("a server whose data is in memory says so in health, log and banner", async (t) => {
  const dataDir = join(directoryFor(t), "data");
  const { server, api } = await startIn(t, dataDir, {
    env: { PERSISTENCE_PROVIDER: "memory", CODEQ_ENV: "dev" },
  });
  assert.equal(JSON.parse((await api.page("/healthz")).text).durability, "memory");
  assert.match(server.stdout, /"listening".*"durability":"memory"/);
  await server.anyLine((line) => line.includes("in memory, lost when the server ends"));
  assert.doesNotMatch(server.stdout, /fsync/);
  assert.equal(server.stdout.includes(dataDir), false);
});
