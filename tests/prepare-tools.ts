/**
 * Gets the programs that tests need and a checkout does not bring, before the tests begin: a build may take
 * minutes, which no test should wait for. What cannot be had here is said, and its tests are skipped.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { pythonTools } from "./api/python-tools.ts";
import { natsBinary } from "./cluster/nats-binary.ts";
import { s3Binary } from "./e2e/s3-server.ts";
import { root } from "./e2e/server-process.ts";
import { oldestNode } from "./install/oldest-node.ts";

type Got = { readonly path: string } | { readonly missing: string };

/** Go keeps what it has compiled; the test links it in a moment. */
function compiled(folder: string): Got {
  const cwd = join(root, folder);
  const { status } = spawnSync("go", ["build", "-o", "/dev/null", "."], { cwd });
  return status === 0 ? { path: folder } : { missing: "Go is missing, or cannot get the modules" };
}

const tools: Readonly<Record<string, () => Got | Promise<Got>>> = {
  "nats-server": natsBinary,
  rclone: s3Binary,
  "Node 22.18": oldestNode,
  schemathesis: pythonTools,
  "checker of Kubernetes objects": () => compiled("tests/install/object-check"),
  "example in Go": () => compiled("examples/go"),
};

for (const [name, get] of Object.entries(tools)) {
  const startedMs = performance.now();
  const got = await get();
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  console.log(`${name}: ${"path" in got ? got.path : `skipped, ${got.missing}`} (${seconds} s)`);
}
