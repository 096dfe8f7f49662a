/** Where the program etcd is: named by a setting, beside codeQ, built by `codeq cluster install-log`, or in the PATH. */
import { spawnSync } from "node:child_process";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { FaultError } from "@codeq/engine";

/** The Go module of the etcd of this version of codeQ. */
export const etcdModule: string = fileURLToPath(new URL("../../../etcd", import.meta.url));

/** Where `codeq cluster install-log` puts it. */
export function installedEtcd(): string {
  return join(homedir(), ".cache", "codeq", "etcd");
}

/** Throws a fault that says how to get it. */
export async function findEtcd(setting: string): Promise<string> {
  // Loaded by nodes of a cluster only.
  const { isUsableVersion, tooOld } = await import("@codeq/engine/etcd");
  const places =
    setting === "" ? [join(dirname(process.execPath), "etcd"), installedEtcd(), "etcd"] : [setting];
  const found = places
    .map((path) => ({ path, version: etcdVersion(path) }))
    .filter(({ version }) => version !== undefined);
  const [usable] = found.filter(({ version = "" }) => isUsableVersion(version));
  if (usable !== undefined) return usable.path;
  const [old] = found;
  if (old !== undefined) throw tooOld(`${old.path} is etcd ${old.version}`);
  const where = setting === "" ? "was not found" : `cannot be run as ${setting}`;
  const advice =
    "Run `codeq cluster install-log` once, which builds it with Go, install etcd 3.6 and set etcdProgram, or set " +
    "etcdUrls to an etcd that you run yourself";
  throw new FaultError("format", `etcd, which keeps the log of a cluster, ${where}. ${advice}.`);
}

/** Undefined when there is no such program. */
export function etcdVersion(path: string): string | undefined {
  const { stdout, error } = spawnSync(path, ["--version"], { encoding: "utf8" });
  return error === undefined ? /etcd Version: (\S+)/.exec(stdout)?.[1] : undefined;
}
