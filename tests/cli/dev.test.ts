/** Servers started from the command line: for development, and with all settings. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { freePorts } from "../../packages/cli/src/local/server-process.ts";
import { CliWorld } from "../../packages/cli/test/cli-world.ts";
import { loadConfig } from "../../packages/server/src/config/load.ts";
import { type Child, root, temporaryDirectory } from "../e2e/server-process.ts";
import { bareEnvironment, cliMain, jsonLines, startCommand } from "./setup.ts";

const run = promisify(execFile);
const anyPort = ["--port", "0", "--worker-stream-addr", ":0", "--producer-stream-addr", ":0"];

function folder(t: TestContext): string {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  return directory.path;
}

/** Ends with the test at the latest, and takes its server along. */
function start(t: TestContext, directory: string, ...argv: string[]): Child {
  const child = startCommand(argv, { directory, env: { NODE_OPTIONS: "--conditions=source" } });
  t.after(() => {
    child.signal("SIGTERM");
    return child.exited;
  });
  return child;
}

async function startDev(t: TestContext, directory: string, ...argv: string[]) {
  const child = start(t, directory, "dev", ...anyPort, ...argv);
  const line = await child.line((text) => text.includes("codeQ is ready"));
  await child.anyLine((text) => /Press Ctrl-C to stop/.test(text));
  const url = /http:\/\/\S+/.exec(line)?.[0] ?? "";
  return { child, url };
}

test("dev says where it is, and what it prints can be pasted as it stands", async (t) => {
  const directory = folder(t);
  const { child, url } = await startDev(t, directory);
  assert.match(child.stdout, /console +http:\/\/127\.0\.0\.1:\d+\/\n/);
  assert.match(child.stdout, /token +dev-token/);
  assert.match(child.stdout, /gRPC +127\.0\.0\.1:\d+ {2}127\.0\.0\.1:\d+/);
  assert.match(child.stdout, /data +\.codeq\/data \(fsync\)/);
  assert.equal(readFileSync(join(directory, ".codeq/.gitignore"), "utf8"), "*\n");
  const [, block = ""] = /In another terminal:\n([\s\S]*?)\n\n/.exec(child.stdout) ?? [];
  const lines = block.split("\n").map((text) => text.trim());
  assert.deepEqual(
    lines.map((text) => text.split(" ").slice(0, 2).join(" ")),
    [
      `export CODEQ_URL=${url}`,
      "codeq work",
      "codeq enqueue",
      "codeq top",
      `curl ${url}/v1/codeq/tasks`,
      '-d \'{"command":"hello","payload":{"name":"curl"}}\'',
    ],
  );
  const codeq = `codeq() { ${process.execPath} --conditions=source ${cliMain} "$@"; }`;
  const [address, work, enqueue, , ...curl] = lines;
  const script = [
    codeq,
    address,
    `${work?.replace(" --", " --max 2 --")} >work.out 2>&1 &`,
    enqueue,
    curl.join("\n"),
    "wait",
  ].join("\n");
  const { stdout } = await run("bash", ["-c", script], {
    cwd: directory,
    env: bareEnvironment(directory),
  });
  assert.match(stdout, /^\{"name":"world"\}\n\{"id":"[0-9a-f-]+","command":"hello"/);
  // What happened is shown, task by task.
  for (const event of ["created", "claimed", "completed"]) {
    await child.anyLine((text) => new RegExp(`hello  \\w{8}  ${event}`).test(text));
  }
});

test("dev takes free ports where the default ones are taken, and leaves chosen ones alone", async (t) => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
  t.after(() => taken.close());
  const { port } = taken.address() as AddressInfo;
  const loaded = loadConfig({ argv: [], env: {}, readFile: () => "" });
  assert.ok(loaded.ok);
  const workerStreamAddr = `:${port}`;
  const config = { ...loaded.config, port: 0, workerStreamAddr, producerStreamAddr: ":0" };
  const flags = ["--worker-stream-addr=:0"];
  assert.deepEqual(await freePorts(config), { flags, taken: [port] });
  const sources = { ...config.sources, workerStreamAddr: "flag --worker-stream-addr" };
  assert.deepEqual(await freePorts({ ...config, sources }), { flags: [], taken: [] });
  assert.deepEqual(await freePorts({ ...config, port }), {
    flags: ["--port=0", ...flags],
    taken: [port, port],
  });
});

test("webhooks to this machine arrive in dev", async (t) => {
  const arrived = Promise.withResolvers<string>();
  const receiver = createHttpServer((request, response) => {
    response.end();
    arrived.resolve(request.url ?? "");
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  t.after(() => receiver.close());
  const { port } = receiver.address() as AddressInfo;
  const { url } = await startDev(t, folder(t));
  using cli = new CliWorld({ env: { CODEQ_BASE_URL: url } });
  const webhook = `http://127.0.0.1:${port}/hook`;
  assert.equal((await cli.run("enqueue", "hello", "--webhook", webhook)).code, 0);
  assert.equal((await cli.run("work", "hello", "--max", "1", "--", "cat")).code, 0);
  assert.equal(await arrived.promise, "/hook");
});

test("keys are made in the files of a stopped server by the installed command", async (t) => {
  const directory = folder(t);
  const bin = join(root, "packages/cli/bin/codeq.js");
  const env = bareEnvironment(directory);
  const keys = async (...argv: string[]): Promise<string> =>
    (
      await run(process.execPath, [bin, "keys", ...argv, "--data-dir", "data"], {
        env,
        cwd: directory,
      })
    ).stdout;
  const made = await keys("create", "--tenant", "acme", "--name", "rescue", "--role", "admin");
  const { id, token, role } = JSON.parse(made);
  assert.deepEqual([role, token.startsWith("cq_")], ["admin", true]);
  assert.equal(JSON.parse(await keys("list", "--tenant", "acme")).id, id);
  assert.equal(JSON.parse(await keys("revoke", id)).id, id);
  assert.equal(await keys("list"), "");
  await assert.rejects(keys("revoke", id), { code: 1 });
});

/** A worker whose second task stops at nothing but the end of the worker. */
const worker = `
  import { codeq, task } from "@codeq/client";
  import { word } from "./word.mjs";
  const greet = task("greet", { retry: { maxAttempts: 1 } }).handle(async ({ name }, ctx) => {
    if (name === "wait" && word === "hello") await new Promise(() => {});
    if (name === "fail") throw new Error("no such name");
    console.log(word, name, "attempt", ctx.attempt);
  });
  await codeq().worker(greet, { on: { failed: () => {} } }).done;
`;

test("dev runs a worker, restarts it on a change without losing an attempt, and tells runs", async (t) => {
  // Where packages are found, as in a project of a user.
  mkdirSync(join(root, "data"), { recursive: true });
  const directory = mkdtempSync(join(root, "data/dev-"));
  t.after(() => rmSync(directory, { recursive: true }));
  writeFileSync(join(directory, "worker.mjs"), worker);
  writeFileSync(join(directory, "word.mjs"), 'export const word = "hello";');
  const { child, url } = await startDev(t, directory, "worker.mjs");
  using cli = new CliWorld({ env: { CODEQ_BASE_URL: url } });
  const enqueue = (name: string) =>
    cli.run("enqueue", "greet", JSON.stringify({ name }), "--max-attempts", "1");
  await enqueue("Ada");
  await child.anyLine((line) => line === "hello Ada attempt 1");
  await child.anyLine((line) => /greet {2}\w{8} {2}completed {2}[\d.]+ ms, by /.test(line));
  await enqueue("wait");
  const other = child.anyLine((line) => line === "bye wait attempt 1");
  await cli.run("enqueue", "greet", '{"name":"Grace"}', "--wait");
  writeFileSync(join(directory, "word.mjs"), 'export const word = "bye";');
  await child.anyLine((line) => /released {2}[\d.]+ m?s, interrupted/.test(line));
  await other;
  await enqueue("fail");
  await child.anyLine((line) =>
    /failed {2}[\d.]+ ms, dead letter, by .*, Error: no such name/.test(line),
  );
  child.signal("SIGINT");
  const { code, stderr } = await child.exited;
  assert.equal(code, 0, stderr);
  assert.match(stderr, /stopped; the data is in/);
  const missing = await start(t, directory, "dev", "other.mjs").exited;
  assert.equal(missing.code, 2);
  assert.match(missing.stderr, /there is no file .*other\.mjs; nothing was started/);
});

test("dev keeps its data over a restart, and --fresh begins anew", async (t) => {
  const directory = folder(t);
  const enqueue = async (url: string, name: string): Promise<void> => {
    using cli = new CliWorld({ env: { CODEQ_BASE_URL: url } });
    assert.equal((await cli.run("enqueue", name)).code, 0);
  };
  const queues = async (url: string): Promise<string[]> => {
    using cli = new CliWorld({ env: { CODEQ_BASE_URL: url } });
    const { output } = await cli.run("queues", "--json");
    return JSON.parse(output).queues.map(({ command }: { command: string }) => command);
  };
  const first = await startDev(t, directory);
  await enqueue(first.url, "kept");
  first.child.signal("SIGINT");
  const exit = await first.child.exited;
  assert.equal(exit.code, 0, exit.stderr);
  assert.match(exit.stderr, /stopped; the data is in \.codeq\/data/);
  const second = await startDev(t, directory);
  assert.deepEqual(await queues(second.url), ["kept"]);
  second.child.signal("SIGINT");
  await second.child.exited;
  const third = await startDev(t, directory, "--fresh", "--yes");
  assert.deepEqual(await queues(third.url), []);
});

test("dev tells the exit codes of the server: data in use, a port taken, a wrong setting", async (t) => {
  const directory = folder(t);
  const { url } = await startDev(t, directory);
  const locked = await start(t, directory, "dev", ...anyPort).exited;
  assert.equal(locked.code, 3);
  assert.match(locked.stderr, /is in use by another codeQ process/);
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
  t.after(() => taken.close());
  const address = taken.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const other = folder(t);
  const flags = ["--port", String(port), ...anyPort.slice(2)];
  const bound = await start(t, other, "dev", ...flags).exited;
  assert.equal(bound.code, 5);
  assert.match(bound.stderr, /port is in use by another process.*--port/);
  assert.match(
    bound.stderr,
    /\nto run next to another server: codeq dev --port 0 --worker-stream-addr :0 /,
  );
  const wrong = await start(t, other, "dev", "--durabilty", "os").exited;
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /did you mean --durability\?/);
  assert.ok(url !== "");
});

test("dev --json is ready in one line, and then tells the log", async (t) => {
  const directory = folder(t);
  const child = start(t, directory, "dev", ...anyPort, "--json");
  const ready = JSON.parse(await child.anyLine((text) => text.includes('"ready"')));
  assert.deepEqual(Object.keys(ready), [
    "event",
    "url",
    "console",
    "token",
    "streams",
    "dataDir",
    "durability",
  ]);
  child.signal("SIGTERM");
  const { stdout, code } = await child.exited;
  assert.equal(code, 0);
  assert.ok(jsonLines(stdout).some(({ msg }) => msg === "stopped"));
});

test("serve takes every setting, ends as the server ends, and prints only JSON when asked", async (t) => {
  const directory = folder(t);
  writeFileSync(join(directory, "codeq.yaml"), "durability: interval\n");
  const flags = ["--config", "codeq.yaml", "--data-dir", "tasks", ...anyPort];
  const child = start(t, directory, "serve", ...flags, "--json");
  const listening = JSON.parse(await child.anyLine((text) => text.includes('"listening"')));
  assert.equal(listening.durability, "interval");
  assert.ok(existsSync(join(directory, "tasks/log")));
  child.signal("SIGTERM");
  const exit = await child.exited;
  assert.equal(exit.code, 0, exit.stderr);
  assert.ok(jsonLines(exit.stdout).every((line) => "msg" in line));
  const plain = start(t, directory, "serve", ...flags);
  await plain.anyLine((text) => text.includes("codeQ is ready"));
  plain.signal("SIGINT");
  assert.equal((await plain.exited).code, 0);
});

test("log inspect reads the log of a running server and of a stopped one, and knows damage", async (t) => {
  const directory = folder(t);
  const { child, url } = await startDev(t, directory);
  using cli = new CliWorld({ env: { CODEQ_BASE_URL: url } });
  const id = JSON.parse((await cli.run("enqueue", "x", "--json")).output).id as string;
  const flags = ["--data-dir", join(directory, ".codeq/data")];
  const live = await cli.run("log", "inspect", ...flags, "--task", id, "--json");
  assert.equal(live.code, 0, live.errors);
  const found = JSON.parse(live.output);
  assert.deepEqual(Object.keys(found), ["directory", "segments", "verdict", "records"]);
  assert.ok(
    found.records[0].ops.some(
      ({ kind, key }: { kind: string; key: string }) => kind === "rowCreated" && key === id,
    ),
    live.output,
  );
  assert.doesNotMatch(live.output, /payload":"/);
  child.signal("SIGTERM");
  await child.exited;
  const stopped = await cli.run("log", "inspect", ...flags, "--ops", "--limit", "1");
  assert.match(stopped.output, /SEGMENT +RECORDS +LAST +USED +FILE\n/);
  assert.match(stopped.output, /\nsound\n/);
  assert.match(stopped.output, /INDEX +TIME/);
  const salvaged = await cli.run("salvage", ...flags);
  assert.equal(salvaged.code, 0, salvaged.errors);
  const [line = ""] = salvaged.output.split("\n");
  const { id: foundId, command, place, payload } = JSON.parse(line);
  assert.deepEqual([foundId, command, place, payload], [id, "x", "ready", {}]);
  assert.match(salvaged.errors, /^1 task can be read, 0 damages found\n$/);
  const segment = join(directory, ".codeq/data/log", found.segments[0].name);
  const bytes = readFileSync(segment);
  bytes[70] = (bytes[70] ?? 0) ^ 0xff;
  writeFileSync(segment, bytes);
  const damaged = await cli.run("log", "inspect", ...flags);
  assert.equal(damaged.code, 4);
  assert.match(damaged.output, /The log is damaged/);
  const none = await cli.run("log", "inspect", "--data-dir", "/does/not/exist");
  assert.equal(none.code, 4);
  assert.match(none.errors, /there is no log in/);
  const nothing = await cli.run("salvage", "--data-dir", "/does/not/exist");
  assert.equal(nothing.code, 4);
  assert.match(nothing.errors, /there is no directory/);
});

test("the installed command runs the compiled program, and survives a reader that leaves", async (t) => {
  const directory = folder(t);
  const bin = join(root, "packages/cli/bin/codeq.js");
  const env = bareEnvironment(directory);
  // The first one compiles when the sources have changed.
  const { stdout } = await run(process.execPath, [bin, "--version"], { env });
  assert.match(stdout, /^\d+\.\d+\.\d+\n$/);
  const script = `${process.execPath} ${bin} serve --help | head -n 1; echo "\${PIPESTATUS[0]}"`;
  const piped = await run("bash", ["-c", script], { env });
  assert.equal(piped.stdout, "codeq serve [options] [server flags]\n0\n");
  assert.equal(piped.stderr, "");
});
