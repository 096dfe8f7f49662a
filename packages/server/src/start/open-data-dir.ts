/** Opens the files of a data directory, or their twins in memory. */
import { access, constants, mkdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import {
  FaultError,
  type Kv,
  LevelKv,
  LocalLog,
  type Log,
  MemoryKv,
  MemoryLog,
  NodeDisk,
} from "@codeq/engine";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/settings.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";

export interface Storage {
  readonly kv: Kv;
  readonly log: Log;
  readonly freeBytes: () => Promise<number>;
}

/** The identity of the only writer a single node has. */
const writer = 1;
const epoch = 1;
const shard = 0;

export async function openDataDir(
  config: Config,
  parts: { readonly clock: Clock; readonly metrics: Metrics; readonly logger: Logger },
): Promise<Storage> {
  if (config.persistenceProvider === "memory") {
    const freeBytes = (): Promise<number> => Promise.resolve(Number.POSITIVE_INFINITY);
    return { kv: new MemoryKv(), log: new MemoryLog({ writer, epoch, shard }), freeBytes };
  }
  const directory = resolve(config.dataDir);
  await makeDirectory(directory);
  const kv = await openKv(directory);
  try {
    await writeFile(pidFile(directory), `${process.pid}\n`);
    const disk = await NodeDisk.open(join(directory, "log"));
    const log = await LocalLog.open(disk, {
      durability: config.durability,
      writer,
      epoch,
      shard,
      monotonicMs: () => parts.clock.monotonicMs(),
      onAppend: (seconds) => parts.metrics.logAppendSeconds.observe(seconds),
      onSync: (seconds) => parts.metrics.logSyncSeconds.observe(seconds),
    });
    if (log.cut !== undefined) {
      parts.logger.warn("the log ended in what was never acknowledged as durable; it was cut off", {
        ...log.cut,
      });
    }
    return { kv, log, freeBytes: () => disk.freeBytes() };
  } catch (error) {
    await kv.close();
    throw error;
  }
}

/** Whoever starts a server for the first time meets this, so it says what to do. */
async function makeDirectory(directory: string): Promise<void> {
  try {
    // What tasks carry is for nobody else on the machine; files in it are made with other rights.
    await mkdir(directory, { recursive: true, mode: 0o750 });
    await access(directory, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new FaultError(
      "format",
      `the data directory ${directory} cannot be used: ${(cause as Error).message}. ` +
        "Let this user write there, or set CODEQ_DATA_DIR to another directory.",
      cause,
    );
  }
}

/** The key-value store's lock is the lock of the whole directory. */
async function openKv(directory: string): Promise<Kv> {
  try {
    return await LevelKv.open(join(directory, "kv"));
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
