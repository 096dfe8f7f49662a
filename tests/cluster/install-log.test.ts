/** `codeq cluster install-log` builds etcd where nodes find it, and says what to do where it cannot. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { findEtcd } from "../../packages/server/src/cluster/etcd/etcd-program.ts";
import { goEnvironment } from "../go-environment.ts";
import { etcdBinary } from "./etcd-binary.ts";

const binary = etcdBinary();
const skip = "missing" in binary && binary.missing;
const commandLine = join(import.meta.dirname, "../../packages/cli/src/main.ts");

/** Go finds what it has compiled for the other tests, although the home folder is another one. */
function goSettings(): Readonly<Record<string, string>> {
  const { stdout } = spawnSync("go", ["env", "GOCACHE", "GOMODCACHE"], { encoding: "utf8" });
  const [GOCACHE = "", GOMODCACHE = ""] = stdout.split("\n");
  const { PATH = "", GOFLAGS = "" } = goEnvironment;
  return { PATH, GOFLAGS, GOCACHE, GOMODCACHE };
}

function installLog(t: TestContext, env: Readonly<Record<string, string>>) {
  const home = mkdtempSync(join(tmpdir(), "codeq-install-log-"));
  t.after(() => rmSync(home, { recursive: true }));
  const args = ["--conditions=source", commandLine, "cluster", "install-log"];
  const ran = spawnSync(process.execPath, args, { encoding: "utf8", env: { HOME: home, ...env } });
  return { ...ran, path: join(home, ".cache/codeq/etcd") };
}

test("builds an etcd that nodes can use", { skip }, async (t) => {
  const { status, stdout, stderr, path } = installLog(t, goSettings());
  assert.equal(status, 0, stderr);
  assert.match(stderr, /Go builds etcd/);
  assert.match(stdout, /^etcd 3\.6\.\d+ is in .*; nodes of a cluster find it there$/m);
  assert.ok(stdout.includes(path));
  assert.equal(await findEtcd(path), path);
});

test("says how to get etcd where there is no Go", (t) => {
  const { status, stderr } = installLog(t, { PATH: "/nonexistent" });
  assert.notEqual(status, 0);
  assert.match(stderr, /etcd could not be built: .*ENOENT/);
  assert.match(stderr, /install Go 1\.26 or newer, or install etcd 3\.6 and set etcdProgram/);
});
