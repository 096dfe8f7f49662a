/**
 * `npm run executable [-- --out <directory>] [--with-log]`: builds `codeq` as one file for this system, and beside it
 * the etcd that keeps the log of a cluster, which takes Go.
 */
import { execFileSync } from "node:child_process";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { buildExecutable } from "./build-executable.ts";

const { values } = parseArgs({
  options: {
    out: { type: "string", default: "executable" },
    "with-log": { type: "boolean", default: false },
  },
});
console.log(await buildExecutable(values.out));
if (values["with-log"]) {
  const path = join(resolve(values.out), "etcd");
  execFileSync("go", ["build", "-trimpath", "-ldflags", "-s -w", "-o", path, "."], {
    cwd: join(import.meta.dirname, "../packages/server/etcd"),
    env: { ...process.env, CGO_ENABLED: "0" },
    stdio: "inherit",
  });
  console.log(path);
}
