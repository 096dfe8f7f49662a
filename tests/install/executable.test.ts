/** The executable on a machine without Node: nothing on the path, an empty folder, no packages. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { makeCertificate } from "../../packages/simulated/src/index.ts";
import { builtExecutable } from "../built-once.ts";
import { collectGrpc } from "../e2e/otlp-collector.ts";
import { Child, root, temporaryDirectory } from "../e2e/server-process.ts";
import { runBlocks } from "./page-blocks.ts";

const run = promisify(execFile);
const isSupported = process.platform === "linux" && process.arch === "x64";
const skip = isSupported ? false : "the executable is built for Linux x64 only";
const executable = isSupported ? await builtExecutable() : "";

const native = "node_modules/classic-level/prebuilds/linux-x64/classic-level.node";
const anyPort = ["--port", "0", "--worker-stream-addr", ":0", "--producer-stream-addr", ":0"];

interface Machine {
  readonly directory: string;
  readonly env: Record<string, string>;
  codeq(...argv: string[]): Promise<{ stdout: string; stderr: string }>;
  start(...argv: string[]): Child;
  /** A server that listens; later commands talk to it. */
  serve(...argv: string[]): Promise<Child>;
}

function setup(t: TestContext, program: string = executable): Machine {
  const folder = temporaryDirectory();
  t.after(() => folder.dispose());
  const temporary = join(folder.path, "tmp");
  const directory = join(folder.path, "work");
  for (const each of [temporary, directory]) mkdirSync(each);
  const env: Record<string, string> = {
    PATH: "/nothing/here",
    HOME: directory,
    TMPDIR: temporary,
    CODEQ_TOKEN: "dev-token",
  };
  const start = (...argv: string[]): Child => {
    const stdio = ["ignore", "pipe", "pipe"] as const;
    const child = new Child(spawn(program, argv, { cwd: directory, env, stdio: [...stdio] }));
    t.after(() => child.kill());
    return child;
  };
  return {
    directory,
    env,
    codeq: (...argv) => run(program, argv, { cwd: directory, env }),
    start,
    serve: async (...argv) => {
      const server = start("serve", ...anyPort, ...argv);
      const line = JSON.parse(await server.line((text) => text.includes('"listening"')));
      env["CODEQ_BASE_URL"] = `http://127.0.0.1:${line.port}`;
      return server;
    },
  };
}

async function stop(server: Child): Promise<void> {
  server.signal("SIGTERM");
  const { code, stdout, stderr } = await server.exited;
  assert.deepEqual([code, stderr], [0, ""]);
  assert.match(stdout, /"stopped"/);
}

test("from an empty folder to a result", { skip }, async (t) => {
  const { codeq, start, env } = setup(t);
  const startedMs = performance.now();
  const dev = start("dev", ...anyPort);
  const ready = await dev.line((line) => line.includes("codeQ is ready"));
  env["CODEQ_BASE_URL"] = /http:\/\/\S+/.exec(ready)?.[0] ?? "";
  const worker = start("work", "hello", "--", "/bin/cat");
  const { stdout } = await codeq("enqueue", "hello", '{"name":"world"}', "--wait");
  t.diagnostic(`it took ${Math.round(performance.now() - startedMs)} ms`);
  assert.deepEqual(JSON.parse(stdout), { name: "world" });
  for (const each of [worker, dev]) {
    each.signal("SIGINT");
    assert.equal((await each.exited).code, 0, each.stderr);
  }
});

test("it says which version it is, and prints nothing else", { skip }, async (t) => {
  const { codeq } = setup(t);
  const { version } = JSON.parse(readFileSync(join(root, "packages/cli/package.json"), "utf8"));
  const { stdout, stderr } = await codeq("version");
  assert.match(stdout, new RegExp(`^codeq ${version.replaceAll(".", "\\.")} \\(Node 2`));
  assert.equal(stderr, "");
});

test("the connection of the outbox to Postgres is inside", { skip }, async (t) => {
  const { codeq } = setup(t);
  assert.match((await codeq("outbox", "sql")).stdout, /CREATE TABLE IF NOT EXISTS codeq_outbox/);
  // Nobody listens on this port.
  const asked = codeq("outbox", "status", "--database-url", "postgres://shop@127.0.0.1:1/shop");
  await assert.rejects(asked, /Postgres: connect ECONNREFUSED/);
});

test("shards run in threads, keep what they were given, and leave no temporary files", {
  skip,
}, async (t) => {
  const { directory, codeq, serve, env } = setup(t);
  const server = await serve("--shards", "2");
  assert.deepEqual(readdirSync(env["TMPDIR"] ?? ""), []);
  for (const queue of ["a", "b", "c", "d"]) await codeq("enqueue", queue, "{}");
  await stop(server);
  assert.ok(readdirSync(join(directory, "data")).includes("shard-1"));
  const again = await serve("--shards", "2");
  const { stdout } = await codeq("queues", "--json");
  assert.deepEqual(stdout.match(/"ready":1/g)?.length, 4, stdout);
  await stop(again);
});

test("traces and measurements reach a collector over gRPC", { skip }, async (t) => {
  const { codeq, serve, env } = setup(t);
  const { collector, endpoint } = await collectGrpc(t);
  Object.assign(env, {
    TRACING_ENABLED: "true",
    TRACING_OTLP_INSECURE: "true",
    CODEQ_METRICS_OTLP_ENABLED: "true",
    CODEQ_METRICS_OTLP_INTERVAL_SECONDS: "1",
  });
  const server = await serve("--tracing-otlp-endpoint", endpoint);
  await codeq("enqueue", "hello", "{}");
  await collector.until((spans) => spans.some(({ name }) => name === "codeq.task.create"));
  await collector.untilMetrics((metrics) =>
    metrics.some(({ name }) => name === "codeq_task_created_total"),
  );
  await stop(server);
});

test("tables are checked by threads at a start, and damage is refused", { skip }, async (t) => {
  const { directory, serve, env, start } = setup(t);
  const server = await serve();
  for (let batch = 0; batch < 12; batch += 1) {
    const tasks = Array.from({ length: 4 }, () => ({ command: "large", payload: noise() }));
    const answer = await fetch(`${env["CODEQ_BASE_URL"]}/v1/codeq/tasks/batch`, {
      method: "POST",
      headers: { authorization: "Bearer dev-token", "content-type": "application/json" },
      body: JSON.stringify({ tasks }),
    });
    assert.equal(answer.status, 200);
  }
  await stop(server);
  await stop(await serve());
  const kv = join(directory, "data/kv");
  const [table = ""] = readdirSync(kv).filter((name) => /\.(ldb|sst)$/.test(name));
  const bytes = readFileSync(join(kv, table));
  bytes[100] = (bytes[100] ?? 0) ^ 1;
  writeFileSync(join(kv, table), bytes);
  const refused = await start("serve", ...anyPort).exited;
  assert.equal(refused.code, 4, refused.stderr);
  assert.match(refused.stderr, new RegExp(table.replace(".", "\\.")));
});

/** Text that does not get shorter by compression. */
function noise(): string {
  return randomBytes(600_000).toString("base64");
}

test("the server ends in order when its command is killed", { skip }, async (t) => {
  const { serve } = setup(t);
  const server = await serve();
  const stopped = server.line((line) => line.includes('"stopped"'));
  server.signal("SIGKILL");
  await stopped;
});

test("the health check follows the server", { skip }, async (t) => {
  const { codeq, serve, env } = setup(t);
  const server = await serve("--host", "0.0.0.0", "--insecure");
  const { port } = new URL(env["CODEQ_BASE_URL"] ?? "");
  const settings = ["--host", "0.0.0.0", "--insecure", "--port", port];
  assert.deepEqual(await codeq("@health", ...settings), { stdout: "", stderr: "" });
  await stop(server);
  await assert.rejects(codeq("@health", ...settings), /cannot be reached/);
  await assert.rejects(codeq("@health", "--prot", "1"), /configuration is invalid/);
});

test("the health check speaks TLS where the server does", { skip }, async (t) => {
  const { codeq, serve, env, directory } = setup(t);
  const nowMs = Date.now();
  const { cert, key } = makeCertificate({
    name: "somebody else",
    validFromMs: nowMs - 3_600_000,
    validToMs: nowMs + 3_600_000,
  });
  writeFileSync(join(directory, "tls.crt"), cert);
  writeFileSync(join(directory, "tls.key"), key);
  const tls = ["--tls-cert-file", "tls.crt", "--tls-key-file", "tls.key"];
  const server = await serve(...tls);
  const { port } = new URL(env["CODEQ_BASE_URL"] ?? "");
  assert.deepEqual(await codeq("@health", ...tls, "--port", port), { stdout: "", stderr: "" });
  await assert.rejects(codeq("@health", "--port", port), /cannot be reached/);
  server.signal("SIGTERM");
  assert.equal((await server.exited).code, 0);
});

test("without a folder for temporary files it says what to do, and that works", {
  skip,
}, async (t) => {
  const { start, env } = setup(t);
  env["TMPDIR"] = "/proc/none";
  const { code, stderr } = await start("serve", ...anyPort).exited;
  assert.equal(code, 1);
  assert.match(stderr, /cannot be loaded from \/proc\/none.*put classic-level\.node beside/);
  const beside = temporaryDirectory();
  t.after(() => beside.dispose());
  const copy = join(beside.path, "codeq");
  copyFileSync(executable, copy);
  copyFileSync(join(root, native), join(beside.path, "classic-level.node"));
  const other = setup(t, copy);
  other.env["TMPDIR"] = "/proc/none";
  await stop(await other.serve());
});

test("the commands of the page build it, and it runs", { skip }, async (t) => {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const printed = await runBlocks("sh executable", directory.path);
  assert.match(printed.at(-1) ?? "", /^codeq \d+\.\d+\.\d+ \(Node /m);
});
