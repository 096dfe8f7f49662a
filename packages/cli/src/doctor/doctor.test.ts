import assert from "node:assert/strict";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DataLock } from "@codeq/server/data-dir";
import { CliWorld } from "../../test/cli-world.ts";
import { checkFileSystem } from "./check-data-directory.ts";
import { judgeSync, measureSync } from "./check-machine.ts";
import { judgeSkew } from "./check-server.ts";

test("a slow disk is warned of, and so is one that is too fast to be true", () => {
  const verdict = (p50Ms: number): string => judgeSync({ p50Ms, p99Ms: p50Ms, writes: 64 }).verdict;
  assert.equal(verdict(0.2), "ok");
  assert.equal(verdict(20), "ok");
  assert.equal(verdict(20.1), "warn");
  assert.equal(verdict(0.005), "warn");
});

test("file systems have names, and those that forget are warned of", () => {
  const { verdict, found } = checkFileSystem(0xef53);
  assert.deepEqual([verdict, found], ["ok", "ext4"]);
  assert.match(checkFileSystem(0x6969).found, /^NFS/);
  assert.equal(checkFileSystem(0x6969).verdict, "warn");
  // Some systems give it as a negative number.
  assert.equal(checkFileSystem(0x9123683e | 0).found, "Btrfs");
  assert.equal(checkFileSystem(0x1234).found, "type 0x1234");
});

test("measuring takes as long as each sync takes, and leaves no file behind", () => {
  using world = new CliWorld();
  const delayMs = 3;
  const cell = new Int32Array(new SharedArrayBuffer(4));
  const times = measureSync(world.directory, () => void Atomics.wait(cell, 0, 0, delayMs));
  assert.equal(times.writes, 64);
  // Timers of the system may end a fraction of a millisecond early.
  assert.ok(times.p50Ms > delayMs - 1, `p50 ${times.p50Ms}`);
  assert.deepEqual(readdirSync(world.directory), []);
});

test("a clock that differs by more than two seconds is told", () => {
  const date = "Thu, 01 Jan 2026 00:00:10 GMT";
  const at = Date.parse(date);
  assert.equal(judgeSkew(date, at).verdict, "ok");
  assert.equal(judgeSkew(date, at + 2900).verdict, "ok");
  assert.equal(judgeSkew(date, at + 4000).verdict, "warn");
  assert.equal(judgeSkew(date, at - 3000).verdict, "warn");
  assert.equal(judgeSkew(null, at).verdict, "ok");
});

const alone = ["--base-url", "http://127.0.0.1:1", "--port", "0"];
const noStreams = ["--worker-stream-addr", "off", "--producer-stream-addr", "off"];

test("doctor tells each check with a verdict, and advice where one is needed", async () => {
  using world = new CliWorld();
  const { code, output } = await world.run("doctor", "--json", ...alone, ...noStreams);
  assert.equal(code, 0);
  const report = JSON.parse(output);
  assert.deepEqual(Object.keys(report), ["checks", "ok", "warn", "fail"]);
  for (const { check, verdict, found, advice } of report.checks) {
    assert.ok(check !== "" && found !== "");
    assert.equal(advice === undefined, verdict === "ok", check);
  }
  const server = report.checks.find(({ check }: { check: string }) => check === "server");
  assert.equal(server.verdict, "warn");
  assert.match(server.found, /cannot be reached/);
});

test("a configuration that is wrong fails, and the exit code says so", async () => {
  using world = new CliWorld();
  const { code, output } = await world.run("doctor", "--port", "99999");
  assert.equal(code, 9);
  assert.match(output, /fail {2}configuration/);
});

test("a data directory that cannot be used fails", async () => {
  using world = new CliWorld();
  writeFileSync(join(world.directory, "file"), "");
  const dataDir = join(world.directory, "file", "data");
  const { code, output } = await world.run("doctor", "--data-dir", dataDir, ...alone, ...noStreams);
  assert.equal(code, 9, output);
  assert.match(output, /fail/);
});

test("--fresh removes data after a yes, never what is not data, never while it is open", async () => {
  const fresh = async (world: CliWorld, ...args: string[]) =>
    world.run("dev", "--fresh", "--host", "256.0.0.1", ...args);
  using foreign = new CliWorld();
  const data = (world: CliWorld): string => join(world.directory, ".codeq/data");
  mkdirSync(data(foreign), { recursive: true });
  writeFileSync(join(data(foreign), "thesis.txt"), "");
  const refused = await fresh(foreign, "--yes");
  assert.equal(refused.code, 4);
  assert.match(refused.errors, /files that are not data of a server \(thesis\.txt\)/);

  using asked = new CliWorld();
  mkdirSync(join(data(asked), "kv"), { recursive: true });
  const silent = await fresh(asked);
  assert.equal(silent.code, 2);
  assert.match(silent.errors, /add --yes/);
  using no = new CliWorld({ isTerminal: true, input: "n\n" });
  mkdirSync(join(data(no), "kv"), { recursive: true });
  assert.equal((await fresh(no)).code, 130);
  assert.deepEqual(readdirSync(data(no)), ["kv", "lock"]);

  using open = new CliWorld();
  mkdirSync(join(data(open), "kv"), { recursive: true });
  const lock = await DataLock.take(data(open));
  const locked = await fresh(open, "--yes");
  await lock[Symbol.asyncDispose]();
  assert.equal(locked.code, 3);
  assert.match(locked.errors, /in use by a server/);
});
