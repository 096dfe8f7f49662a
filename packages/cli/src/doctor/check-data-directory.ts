/**
 * Checks the data directory: it exists, is writable, is on a disk with enough space, is not in use, and its
 * files are undamaged.
 */
import { accessSync, constants, existsSync, readFileSync, statfsSync } from "node:fs";
import { dirname, join } from "node:path";
import { FaultError, isUnsettled, scrubTables } from "@codeq/server/data-dir";
import { dataDirectoryOf } from "../local/data-directory.ts";
import { shardsIn, storeName, storesIn } from "../local/shard-directories.ts";
import { bytes } from "../terminal/units.ts";
import { type Finding, fail, ok, type Patient, warn } from "./finding.ts";

const roomyBytes = 1024 ** 3;

/** File systems that forget or that cannot promise a sync, by the number Linux gives them. */
const doubtful: ReadonlyMap<number, string> = new Map([
  [0x01021994, "tmpfs, which is memory: all data is lost when the machine restarts"],
  [0x858458f6, "ramfs, which is memory: all data is lost when the machine restarts"],
  [0x6969, "NFS, where locks and syncs depend on the server"],
  [0xff534d42, "CIFS, where locks and syncs depend on the server"],
]);

const usual: ReadonlyMap<number, string> = new Map([
  [0xef53, "ext4"],
  [0x58465342, "XFS"],
  [0x9123683e, "Btrfs"],
  [0x2fc12fc1, "ZFS"],
  [0x794c7630, "overlay, which is deleted with its container; use a volume"],
]);

/** The directory itself, or the closest one above it that exists. */
export function existingDirectory(directory: string): string {
  let path = directory;
  while (!existsSync(path)) path = dirname(path);
  return path;
}

export function checkDataDirectory(patient: Patient): Finding[] {
  const { config } = patient;
  if (config.persistenceProvider === "memory") {
    const advice = "set persistenceProvider to embedded to keep tasks after a restart";
    return [warn("data directory", "tasks are in memory only", advice)];
  }
  const directory = dataDirectoryOf(patient.call, config);
  const existing = existingDirectory(directory);
  const findings: Finding[] = [];
  try {
    accessSync(existing, constants.R_OK | constants.W_OK | constants.X_OK);
    const state =
      existing === directory ? "can be written" : "does not exist yet and can be created";
    findings.push(ok("data directory", `${directory} ${state}`));
  } catch {
    const advice = "give this user write access, or set CODEQ_DATA_DIR to another directory";
    return [fail("data directory", `${existing} cannot be written`, advice)];
  }
  findings.push(
    checkFileSystem(Number(statfsSync(existing).type)),
    checkSpace(existing, config.minFreeDiskBytes),
  );
  findings.push(checkUse(directory));
  return findings;
}

/** By the number that the system gives its kind. */
export function checkFileSystem(type: number): Finding {
  const kind = type >>> 0;
  const what = doubtful.get(kind);
  if (what === undefined) {
    return ok("file system", usual.get(kind) ?? `type 0x${kind.toString(16)}`);
  }
  return warn("file system", what, "use a local disk for everything except tests");
}

function checkSpace(directory: string, minFreeBytes: number): Finding {
  const { bavail, bsize } = statfsSync(directory);
  const free = Number(bavail) * Number(bsize);
  const found = `${bytes(free)} free`;
  if (free < minFreeBytes) {
    const advice = `writes are refused below ${bytes(minFreeBytes)} (minFreeDiskBytes); free some space`;
    return fail("disk space", found, advice);
  }
  if (free < Math.max(roomyBytes, minFreeBytes * 4)) {
    return warn("disk space", found, "free some space before the server refuses writes");
  }
  return ok("disk space", found);
}

function checkUse(directory: string): Finding {
  const pid = pidIn(directory);
  if (pid === undefined) return ok("in use", "not used by a server");
  return ok("in use", `used by the server with pid ${pid}`);
}

/** Whether the data has as many shards as the configuration says. */
export function checkShards({ call, config }: Patient): Finding[] {
  const directory = dataDirectoryOf(call, config);
  if (config.persistenceProvider === "memory") return [];
  if (isUnsettled(directory)) {
    const advice =
      "run codeq shards migrate, restore, cluster init or cluster leave again; a start of the server " +
      "finishes or cancels all of them except a restore";
    return [warn("shards", "a command that replaces the stores was interrupted", advice)];
  }
  if (!existsSync(join(directory, "kv"))) return [];
  const shards = shardsIn(directory);
  const found = Math.max(1, (shards.at(-1) ?? 0) + 1);
  if (shards.length > 0 && shards.length !== found) {
    const missing = Array.from({ length: found }, (_, shard) => shard).find(
      (shard) => !shards.includes(shard),
    );
    const advice = "put it back, or restore the whole data directory from one backup";
    return [fail("shards", `the directory of shard ${missing} is missing`, advice)];
  }
  if (found === config.shards) return [ok("shards", String(found))];
  const advice = `set shards to ${found}, or run codeq shards migrate --to ${config.shards}`;
  const text = `the data has ${found}, the configuration has ${config.shards}`;
  return [fail("shards", text, advice)];
}

/** Reads all tables of all stores, also while a server uses them. */
export async function checkStoreFiles({ call, config }: Patient): Promise<Finding[]> {
  if (config.persistenceProvider === "memory") return [];
  const findings: Finding[] = [];
  for (const store of storesIn(dataDirectoryOf(call, config))) {
    const directory = join(store.directory, "kv");
    const name = storeName(store);
    if (existsSync(directory)) findings.push(await checkTables(directory, name && `${name}: `));
  }
  return findings;
}

async function checkTables(directory: string, prefix: string): Promise<Finding> {
  try {
    const { tables, bytes: size } = await scrubTables(directory);
    return ok("store files", `${prefix}${tables} tables, ${bytes(size)}, no damage`);
  } catch (error) {
    if (!(error instanceof FaultError)) throw error;
    const advice = "stop the server, keep a copy of the data directory, and restore a backup";
    return fail("store files", prefix + error.message, advice);
  }
}

/** The process id of the running server; undefined without one. */
export function pidIn(directory: string): number | undefined {
  try {
    const pid = Number(readFileSync(join(directory, "codeq.pid"), "utf8").trim());
    process.kill(pid, 0);
    return pid;
  } catch {
    // No file, or a process that has ended.
    return undefined;
  }
}
