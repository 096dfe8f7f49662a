/**
 * Finds etcd for the tests, or builds it: CODEQ_ETCD, the PATH, the module in packages/server/etcd, which Go builds
 * through its proxy in about 30 seconds. The built program is kept in the user's cache folder.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isUsableVersion } from "../../packages/engine/src/log/replicated/etcd/etcd-servers.ts";
import { root } from "../e2e/server-process.ts";
import { goEnvironment } from "../go-environment.ts";
import { toolCache } from "../tool-cache.ts";

const module = join(root, "packages/server/etcd");

/** Undefined, and why, where it cannot be had. */
export function etcdBinary(): { readonly path: string } | { readonly missing: string } {
  const kept = keptPath();
  const known = [process.env["CODEQ_ETCD"] ?? "", "etcd", kept];
  const found = known.find((path) => path !== "" && isUsable(path));
  if (found !== undefined) return { path: found };
  build(kept);
  if (isUsable(kept)) return { path: kept };
  return { missing: "etcd 3.6 is not on the PATH, and Go cannot build it" };
}

/** Another version of the module is another program. */
function keptPath(): string {
  const sum = createHash("sha256");
  for (const file of ["go.mod", "go.sum", "main.go"]) sum.update(readFileSync(join(module, file)));
  return join(toolCache, `etcd-${sum.digest("hex").slice(0, 12)}`);
}

function isUsable(path: string): boolean {
  const { stdout } = spawnSync(path, ["--version"], { encoding: "utf8" });
  return isUsableVersion(/etcd Version: (\S+)/.exec(stdout ?? "")?.[1] ?? "");
}

function build(kept: string): void {
  mkdirSync(toolCache, { recursive: true });
  const scratch = mkdtempSync(join(toolCache, "etcd-"));
  const made = join(scratch, "etcd");
  const { status } = spawnSync("go", ["build", "-o", made, "."], {
    cwd: module,
    env: goEnvironment,
    stdio: "ignore",
  });
  // At once, because several tests may do it at the same time.
  if (status === 0) renameSync(made, kept);
  rmSync(scratch, { recursive: true, force: true });
}
