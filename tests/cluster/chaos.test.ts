/** The short form of `npm run chaos`: three faults, one after the other, against real nodes and log servers. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { NamespaceNetwork } from "../chaos/network.ts";
import { Child, root } from "../e2e/server-process.ts";
import { etcdBinary } from "./etcd-binary.ts";

const binary = etcdBinary();
const skip = "missing" in binary && binary.missing;
const seed = "1";
const killed = "kill the leader";
const cut = "isolate the leader";
const stopped = "stop the leader in order";

test("a campaign of three faults loses nothing, and all nodes hold the same", {
  skip,
}, async (t) => {
  const why = await NamespaceNetwork.missing();
  if (why !== undefined) t.diagnostic(`without "${cut}": ${why}`);
  const list = why === undefined ? [killed, cut, stopped] : [killed, stopped];
  const network = why === undefined ? [] : ["--loopback"];
  const args = [...network, "--seed", seed, "--list", list.join(",")];
  const run = join(root, "tests/chaos/run.ts");
  const child = new Child(spawn(process.execPath, ["--conditions=source", run, ...args]));
  t.after(() => child.kill());
  const { code, stdout, stderr } = await child.exited;
  assert.equal(code, 0, stdout + stderr);
  for (const name of list)
    assert.match(stdout, new RegExp(`${name} +1 times, pauses: median \\d+ ms`));
  assert.match(stdout, /^sound; the seed was 1$/m);
});
