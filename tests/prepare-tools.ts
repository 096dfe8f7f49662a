/**
 * Gets the programs that tests need and a checkout does not bring, before the tests begin: a build may take
 * minutes, which no test should wait for. What cannot be had here is said, and its tests are skipped.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { pythonTools } from "./api/python-tools.ts";
import { builtExecutable, packedPackages } from "./built-once.ts";
import { runtime } from "./client/runtimes.ts";
import { pythonClientTools } from "./clients/python-tools.ts";
import { etcdBinary } from "./cluster/etcd-binary.ts";
import { s3Binary } from "./e2e/s3-server.ts";
import { root } from "./e2e/server-process.ts";
import { goEnvironment } from "./go-environment.ts";
import { schemaOf } from "./install/object-schemas.ts";
import { oldestNode } from "./install/oldest-node.ts";
import { postgresBinaries } from "./outbox/postgres-binary.ts";
import { prismaPackages } from "./outbox/prisma-client.ts";

/** What `npm start` and `codeq` of a checkout compile when it is not there: one test would take it from under another. */
const compile = `import { buildPackage } from "./scripts/build.mjs";
for (const each of ["server", "cli"]) buildPackage(process.execPath, each);`;

type Got = { readonly path: string } | { readonly missing: string };

/** Go keeps what it has compiled; the test links it in a moment. */
function compiled(folder: string, what = "."): Got {
  const cwd = join(root, folder);
  const { status } = spawnSync("go", ["build", "-o", "/dev/null", what], {
    cwd,
    env: goEnvironment,
  });
  return status === 0 ? { path: folder } : { missing: "Go is missing, or cannot get the modules" };
}

function compiledPackages(): Got {
  const args = ["--input-type=module", "-e", compile];
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
  return status === 0 ? { path: "packages" } : { missing: stderr };
}

const tools: Readonly<Record<string, () => Got | Promise<Got>>> = {
  postgres: postgresBinaries,
  prisma: prismaPackages,
  etcd: etcdBinary,
  rclone: s3Binary,
  "Node 22.18": oldestNode,
  schemathesis: pythonTools,
  "packages of the Python client": pythonClientTools,
  workerd: () => runtime("workerd"),
  bun: () => runtime("bun"),
  deno: () => runtime("deno"),
  "schema of Kubernetes": () => schemaOf("kubernetes"),
  "schema of Compose": () => schemaOf("compose"),
  "compiled packages": compiledPackages,
  "packed packages": async () => ({ path: await packedPackages() }),
  executable: async () => ({ path: await builtExecutable() }),
  "example in Go": () => compiled("examples/go"),
  "conformance driver in Go": () => compiled("clients/go", "./internal/conformance"),
};

/** The names of tools as arguments; all of them without. */
const wanted = process.argv.slice(2);
for (const [name, get] of Object.entries(tools)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const startedMs = performance.now();
  const got = await Promise.resolve()
    .then(get)
    .catch((error: Error) => ({ missing: error.message }));
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  console.log(`${name}: ${"path" in got ? got.path : `skipped, ${got.missing}`} (${seconds} s)`);
}
