/**
 * Opens the files of a data directory so that log and kv are known to belong to each other: the lock
 * first, then the id of the store, then the log, and the kv last. Files that are damaged or do not belong
 * together are refused, by name; files that can be derived from the others are made again, and reported.
 */
import { join } from "node:path";
import { NodeDisk } from "./disk/node-disk.ts";
import { DataLock } from "./kv/data-lock.ts";
import type { Kv } from "./kv/kv.ts";
import { LevelKv, type LevelSizes } from "./kv/level-kv.ts";
import { type Durability, LocalLog } from "./log/local-log.ts";
import { inspectSegment, segmentFirstIndex } from "./log/segment.ts";
import { Witness } from "./log/witness.ts";
import { OpenedParts } from "./opened-parts.ts";

export interface FilesOptions {
  readonly durability: Durability;
  readonly monotonicMs: () => number;
  readonly onSync?: (seconds: number) => void;
  readonly onAppend?: (seconds: number, bytes: number) => void;
  /** Memory of the key-value store. */
  readonly sizes?: LevelSizes;
  /** Default: 64 MiB. */
  readonly segmentBytes?: number | undefined;
  /** For a new store: any whole number above zero, no other store may have it. */
  readonly newStoreId: () => number;
  /** Called when something was lost and could be made again. */
  readonly onRepair: (what: string) => void;
  /** The lock of the directory, when the caller has it already and keeps it. */
  readonly lock?: DataLock | undefined;
  /** Called when the lock is taken and no file was looked at; throws to leave all as it is. */
  readonly onLocked?: () => void;
}

export interface OpenedFiles {
  readonly kv: Kv;
  readonly log: LocalLog;
  readonly storeId: number;
  readonly freeBytes: () => Promise<number>;
}

const shard = 0;
const epoch = 1;
/** With less room than this, the spare files of the log are removed before anything is opened. */
const roomyBytes = 64 * 1024 * 1024;

/** The kv holds the lock, unless the caller does. The holder closes the lock last. */
export async function openFiles(directory: string, options: FilesOptions): Promise<OpenedFiles> {
  await using opened = new OpenedParts();
  const lock = options.lock === undefined ? opened.use(await DataLock.take(directory)) : undefined;
  options.onLocked?.();
  const disk = await NodeDisk.open(directory);
  const logDisk = await NodeDisk.open(join(directory, "log"));
  const witness = await Witness.open(disk);
  opened.defer(() => witness.close());
  const first = await firstSegment(logDisk);
  const storeId = witness.found?.storeId ?? first?.storeId ?? options.newStoreId();
  const hasRoom = (await disk.freeBytes()) >= roomyBytes;
  const log = await LocalLog.open(logDisk, {
    ...options,
    writer: storeId,
    epoch,
    shard,
    witness,
    keepsSpares: hasRoom,
  });
  opened.defer(() => log.close());
  if (witness.found === undefined && first !== undefined) {
    options.onRepair("the file witness was missing or damaged and was written again");
  }
  const mustHaveTables = first !== undefined && first.firstIndex > 1;
  const { sizes } = options;
  const kvOptions = { mustHaveTables, lock, ...(sizes === undefined ? {} : { sizes }) };
  const kv = await LevelKv.open(join(directory, "kv"), kvOptions);
  if (kv.isNew && log.lastIndex > 0) {
    options.onRepair("the key-value store was missing and is made again from the log");
  }
  opened.keep();
  return { kv, log, storeId, freeBytes: () => disk.freeBytes() };
}

/** The first index of the log, and the id of its store. */
async function firstSegment(
  disk: NodeDisk,
): Promise<{ readonly firstIndex: number; readonly storeId: number | undefined } | undefined> {
  const name = (await disk.list()).find((each) => segmentFirstIndex(each) !== undefined);
  if (name === undefined) return undefined;
  for await (const entry of inspectSegment(disk, name)) {
    if (entry.ok) return { firstIndex: entry.header.index, storeId: entry.header.writer };
  }
  return { firstIndex: segmentFirstIndex(name) as number, storeId: undefined };
}
