/** Opens the files of a data directory, or their in-memory versions. */
import { existsSync } from "node:fs";
import { access, constants, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import {
  DataLock,
  FaultError,
  type Kv,
  LevelKv,
  type LocalLog,
  type Log,
  MemoryKv,
  MemoryLog,
  NodeDisk,
  type OpenedFiles,
  openFiles,
} from "@codeq/engine";
import type { Config } from "../config/settings.ts";
import { isUnsettled, replicasFolder, settleStores } from "../core/backup/replace-stores.ts";
import { drawId } from "../core/backup/store-files.ts";
import { type Clock, untilSharedMs } from "../core/clock.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";

export interface Storage {
  readonly kv: Kv;
  /** The kv is closed by the code that opened it. */
  readonly isKvLent?: boolean;
  readonly log: Log;
  /** The id of the store on disk. */
  readonly storeId?: number;
  readonly freeBytes: () => Promise<number>;
}

/** What a server in memory calls its only writer. */
const inMemory = { writer: 1, epoch: 1, shard: 0 } as const;
/** What is acknowledged for longer than this is missed when it is cut off the end of the log. */
const witnessMs = 1000;

/** The lock of a data directory, held by who works on it for longer than its files are open. */
export type HeldLock = DataLock;

interface OpenParts {
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** The lock of the process that replaces the stores. */
  readonly lock?: HeldLock | undefined;
  /** The size of the files of the log; default: 64 MiB. */
  readonly segmentBytes?: number | undefined;
}

export async function openDataDir(config: Config, parts: OpenParts): Promise<Storage> {
  if (config.persistenceProvider === "memory") {
    const freeBytes = (): Promise<number> => Promise.resolve(Number.POSITIVE_INFINITY);
    return { kv: new MemoryKv(), log: new MemoryLog(inMemory), freeBytes };
  }
  const directory = resolve(config.dataDir);
  await makeDirectory(directory);
  const files = await open(directory, config, parts);
  await writeFile(pidFile(directory), `${process.pid}\n`).catch(() => {
    // Only a hint for people; a full disk has no room for it.
  });
  if (files.log.cut !== undefined) {
    parts.logger.warn(
      "the log ended with an incomplete record that was never acknowledged; it was removed",
      {
        ...files.log.cut,
      },
    );
  }
  noteProgress(files.log, parts.clock);
  return files;
}

/** What a node of a cluster keeps of one shard. */
export interface ReplicaStorage {
  readonly kv: Kv;
  readonly freeBytes: () => Promise<number>;
}

/** The code that opened the store of the data directory holds its lock. */
export async function openReplica(config: Config, name: string): Promise<ReplicaStorage> {
  if (config.persistenceProvider === "memory") {
    return { kv: new MemoryKv(), freeBytes: () => Promise.resolve(Number.POSITIVE_INFINITY) };
  }
  const directory = resolve(config.dataDir, replicasFolder, name);
  await makeDirectory(directory);
  const disk = await NodeDisk.open(directory);
  const sizes = { cacheBytes: config.lsmCacheBytes, writeBufferBytes: config.lsmWriteBufferBytes };
  const kv = await LevelKv.open(join(directory, "kv"), { sizes });
  return { kv, freeBytes: () => disk.freeBytes() };
}

/** Whether this node has ever followed the log that this folder of replicas belongs to. */
export function hasReplica(config: Config, folder: string): boolean {
  return existsSync(resolve(config.dataDir, replicasFolder, folder));
}

/** Finishes what an interrupted command that replaces the stores has left, so that the directory can be looked at. */
export async function settleDataDir({ dataDir, persistenceProvider }: Config): Promise<void> {
  const directory = resolve(dataDir);
  if (persistenceProvider === "memory" || !isUnsettled(directory)) return;
  await using _ = await lockDataDir(directory);
  settleStores(directory);
}

/** Throws when the directory is of the other kind of server, whose tasks would not be seen. */
export function assertKindOfServer(config: Config): void {
  const folder = resolve(config.dataDir, replicasFolder);
  if (config.clusterMembers !== "" || !existsSync(folder)) return;
  throw new FaultError(
    "format",
    `the data directory ${resolve(config.dataDir)} belongs to a cluster node. ` +
      "Set clusterMembers, nodeId and clusterSecret as before, or, to leave the cluster, run `codeq cluster end` " +
      "while it is up and `codeq cluster leave` on the stopped node.",
  );
}

/** Keeps the witness of the log not much behind it, also when nothing is flushed. */
function noteProgress(log: LocalLog, clock: Clock): void {
  clock.after(untilSharedMs(clock, witnessMs), () => {
    if (log.isClosed) return;
    log.noteProgress();
    noteProgress(log, clock);
  });
}

/** The first start of a server often fails here, so the error says what to do. */
async function makeDirectory(directory: string): Promise<void> {
  try {
    // No other user of the machine may read payloads; files in the directory have rights of their own.
    await makeWithParents(directory, 0o750);
    await access(directory, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new FaultError(
      "format",
      `the data directory ${directory} cannot be used: ${(cause as Error).message}. ` +
        "Give this user write access, or set CODEQ_DATA_DIR to another directory.",
      cause,
    );
  }
}

export function lockDataDir(directory: string): Promise<HeldLock> {
  return unlessInUse(directory, () => DataLock.take(directory));
}

/** One by one: the recursive mkdir of Node never ends below a directory such as /proc. */
async function makeWithParents(directory: string, mode: number): Promise<void> {
  const parent = dirname(directory);
  if (!existsSync(parent)) await makeWithParents(parent, mode);
  try {
    await mkdir(directory, { mode });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

function open(
  directory: string,
  config: Config,
  { clock, metrics, logger, lock, segmentBytes }: OpenParts,
): Promise<OpenedFiles> {
  return unlessInUse(directory, () =>
    openFiles(directory, {
      lock,
      onLocked: () => {
        if (lock === undefined) settleStores(directory);
      },
      durability: config.durability,
      segmentBytes,
      sizes: { cacheBytes: config.lsmCacheBytes, writeBufferBytes: config.lsmWriteBufferBytes },
      monotonicMs: () => clock.monotonicMs(),
      onAppend: (seconds) => metrics.logAppendSeconds.observe(seconds),
      onSync: (seconds) => metrics.logSyncSeconds.observe(seconds),
      newStoreId: drawId,
      onRepair: (what) => logger.warn("the data directory was repaired", { what }),
    }),
  );
}

async function unlessInUse<T>(directory: string, use: () => Promise<T>): Promise<T> {
  try {
    return await use();
  } catch (error) {
    if (!(error instanceof FaultError) || error.code !== "locked") throw error;
    const pid = await readFile(pidFile(directory), "utf8").catch(() => "unknown");
    throw new FaultError(
      "locked",
      `the data directory ${directory} is in use by another codeQ process (pid ${pid.trim()}). ` +
        "Stop that process, or set CODEQ_DATA_DIR to another directory.",
      error,
    );
  }
}

const pidFile = (directory: string): string => join(directory, "codeq.pid");
