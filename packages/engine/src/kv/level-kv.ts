/**
 * The LSM binding (LevelDB through classic-level). Assumes that the caller holds the lock of the data
 * directory.
 *
 * LevelDB checks nothing that it reads, and skips damaged parts of its own log. So tables are checked here
 * before LevelDB opens them, and its log is removed. LevelDB then serves exactly its tables, the state after
 * some batch; everything later comes from the commit log. A batch is durable when the log files of LevelDB
 * that it may be in are gone: LevelDB removes a log file when the table made of it, and the manifest that names
 * the table, are synced.
 *
 * Batches are collected outside of the JavaScript heap, and written off the JavaScript thread as one
 * atomic write.
 */
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statfsSync,
  statSync,
} from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { ClassicLevel } from "classic-level";
import { FaultError, isDiskFull } from "../fault.ts";
import { checkTables, scrubTables } from "./check-tables.ts";
import type {
  Kv,
  KvBatch,
  KvCursor,
  KvFiles,
  KvLevel,
  KvRange,
  KvStats,
  KvTextCursor,
} from "./kv.ts";
import { levelStats, withPast } from "./level-stats.ts";
import { assertWhole, damaged, logName, logNumbers, readStoreFiles } from "./manifest.ts";

type Database = ClassicLevel<string, Buffer>;

const mebibyte = 1024 * 1024;
const asText = { valueEncoding: "utf8" } as const;
/** The bytes that LevelDB writes besides the table when it opens. */
const openingBytes = mebibyte;
/** Sorts after every key: a compaction of this range only turns memory into a table. */
const noKey = "\u007f";
const firstKey = " ";
/** The file in which LevelDB notes what it does; emptied whenever the store is opened. */
const notesName = "LOG";
/** "Current memtable full" or "Too many L0 files". */
const stallNote = /; waiting\.\.\.$/gm;

/** The stores that this process has open. */
const openDirectories = new Set<string>();

/** Default memory sizes. */
export const levelSizes: LevelSizes = {
  // Reads of records come from the overlay or in passes over ranges, which leave the cache alone.
  cacheBytes: 32 * mebibyte,
  // LevelDB may hold two of these. Half the size doubles the work of compactions; more saves little.
  writeBufferBytes: 32 * mebibyte,
};

export interface LevelSizes {
  /** Blocks of tables that are kept in memory. */
  readonly cacheBytes: number;
  /** What is collected in memory before it becomes a table. */
  readonly writeBufferBytes: number;
}

export interface LevelKvOptions {
  readonly sizes?: LevelSizes;
  /** The store is known to hold data: without tables, it has lost them. */
  readonly mustHaveTables?: boolean;
  /** Released when the store is closed. */
  readonly lock?: AsyncDisposable | undefined;
}

/** The log position that was reached while one of LevelDB's own log files was the newest. */
interface Mark {
  readonly log: number;
  readonly index: number;
}

export class LevelKv implements Kv {
  readonly files: KvFiles = {
    noteWritten: (index) => this.#noteWritten(index),
    makeDurable: () => this.#makeDurable(),
    reclaim: () => this.#database.compactRange(firstKey, noKey),
    scrub: async () => {
      await scrubTables(this.#directory);
    },
  };
  /** The directory held no store when it was opened. */
  readonly isNew: boolean;
  readonly #directory: string;
  readonly #sizes: LevelSizes;
  readonly #lock: AsyncDisposable | undefined;
  #database: Database;
  /** Closed to be reopened; calls are refused meanwhile, with the reason. */
  #isRecovering = false;
  /** Oldest first. */
  #marks: Mark[] = [];
  #durableIndex = 0;
  /** The levels before the last recovery, since which LevelDB counts. */
  #past: readonly KvLevel[] = [];
  readonly #own: OwnFiles;

  private constructor(parts: {
    readonly directory: string;
    readonly sizes: LevelSizes;
    readonly database: Database;
    readonly lock: AsyncDisposable | undefined;
    readonly isNew: boolean;
  }) {
    this.#directory = parts.directory;
    this.#sizes = parts.sizes;
    this.#database = parts.database;
    this.#lock = parts.lock;
    this.isNew = parts.isNew;
    this.#own = new OwnFiles(parts.directory);
  }

  /** Throws `corrupt`, without having changed anything, when a file is damaged. */
  static async open(directory: string, options: LevelKvOptions = {}): Promise<LevelKv> {
    mkdirSync(directory, { recursive: true });
    const { tables, logs, manifest } = readStoreFiles(directory);
    if (options.mustHaveTables === true && tables.length === 0) {
      throw damaged(directory, "holds no data though the log does not go back to the beginning");
    }
    await checkTables(directory, tables);
    // LevelDB looks at its own lock only when the logs are gone already.
    if (openDirectories.has(directory)) {
      throw new FaultError("locked", `${directory} is open already in this process`);
    }
    openDirectories.add(directory);
    try {
      removeLogs(directory, logs);
      const isNew = manifest === undefined;
      const sizes = options.sizes ?? levelSizes;
      const database = await openDatabase(directory, isNew, sizes);
      return new LevelKv({ directory, sizes, database, lock: options.lock, isNew });
    } catch (error) {
      openDirectories.delete(directory);
      throw error;
    }
  }

  get(key: string): Buffer | undefined {
    try {
      return this.#database.getSync(key);
    } catch (error) {
      throw this.#readFault(error);
    }
  }

  getText(key: string): string | undefined {
    try {
      return this.#database.getSync<string, string>(key, asText);
    } catch (error) {
      throw this.#readFault(error);
    }
  }

  cursor(range: KvRange): KvCursor {
    return this.#cursor(range, {});
  }

  textCursor(range: KvRange): KvTextCursor {
    return this.#cursor(range, asText);
  }

  #cursor<Value>(
    range: KvRange,
    encoding: { valueEncoding?: "utf8" },
  ): KvCursor<Value> & Pick<KvTextCursor, "skipTo"> {
    if (this.#isRecovering) throw this.#readFault(undefined);
    const iterator = this.#database.iterator<string, Value>({
      gt: range.after,
      lt: range.before,
      reverse: range.isReverse === true,
      fillCache: false,
      highWaterMarkBytes: mebibyte,
      ...encoding,
    });
    return {
      next: async (count) => {
        try {
          return await iterator.nextv(count);
        } catch (error) {
          throw this.#readFault(error);
        }
      },
      skipTo: (key) => iterator.seek(key),
      close: () => iterator.close(),
    };
  }

  #readFault(error: unknown): FaultError {
    if (!this.#isRecovering) return asFault(error);
    return new FaultError("disk_full", "the key-value store is being reopened", error);
  }

  batch(): KvBatch {
    if (this.#isRecovering) throw this.#readFault(undefined);
    return new LevelBatch(this.#database.batch() as PlainBatch);
  }

  /**
   * After a failed write, LevelDB refuses all writes until it is reopened. Opening writes its own log, which is
   * checked first, into a table; without room for the table the store would stay closed and could not even be read.
   */
  async recover(): Promise<void> {
    this.#assertSpace();
    this.#isRecovering = true;
    this.#past = this.#levels();
    await this.#database.close();
    const logs = logNumbers(readdirSync(this.#directory));
    this.#own.look(logs);
    for (const log of logs) {
      assertWhole(join(this.#directory, logName(log)));
    }
    this.#database = await openDatabase(this.#directory, false, this.#sizes);
    this.#own.reopened();
    this.#isRecovering = false;
  }

  #assertSpace(): void {
    const logs = logNumbers(readdirSync(this.#directory)).map(logName);
    const sizes = logs.map((name) => statSync(join(this.#directory, name)).size);
    const needed = sizes.reduce((sum, size) => sum + size, openingBytes);
    const { bavail, bsize } = statfsSync(this.#directory);
    if (bavail * bsize >= needed) return;
    throw new FaultError("disk_full", `the key-value store needs ${needed} bytes to be opened`);
  }

  async #noteWritten(index: number): Promise<number> {
    const logs = await this.#logs();
    this.#own.look(logs);
    this.#marks.push({ log: logs.at(-1) as number, index });
    return this.#durable(logs);
  }

  async #makeDurable(): Promise<number> {
    if (this.#marks.length === 0) return this.#durableIndex;
    // Turns memory into a table. It reports no failure; the log files that are left show it.
    await this.#database.compactRange(noKey, noKey);
    return this.#durable(await this.#logs());
  }

  async #logs(): Promise<readonly number[]> {
    const names = await readdir(this.#directory);
    const logs = logNumbers(names);
    if (logs.length > 0) return logs;
    const rest = names.length === 0 ? "nothing" : names.join(", ");
    const text = `somebody removed files of ${this.#directory}: ${rest} is left`;
    throw new FaultError("storage_failed", text);
  }

  #durable(logs: readonly number[]): number {
    const oldest = logs[0] as number;
    const kept = this.#marks.findIndex(({ log }) => log >= oldest);
    const gone = this.#marks.splice(0, kept < 0 ? this.#marks.length : kept);
    this.#durableIndex = gone.at(-1)?.index ?? this.#durableIndex;
    return this.#durableIndex;
  }

  stats(): KvStats {
    if (this.#database.status === "open") this.#own.look(logNumbers(readdirSync(this.#directory)));
    const { bufferBytes, ownLogBytes, stalls } = this.#own;
    return {
      ...levelStats(this.#property("leveldb.stats")),
      levels: this.#levels(),
      memoryBytes: Number(this.#property("leveldb.approximate-memory-usage")),
      bufferBytes,
      ownLogBytes,
      stalls,
      cacheBytesMax: this.#sizes.cacheBytes,
    };
  }

  #property(name: string): string {
    return this.#database.status === "open" ? this.#database.getProperty(name) : "";
  }

  #levels(): readonly KvLevel[] {
    return withPast(levelStats(this.#property("leveldb.stats")).levels, this.#past);
  }

  async close(): Promise<void> {
    const isOpen = this.#database.status === "open";
    await this.#database.close();
    if (isOpen) openDirectories.delete(this.#directory);
    await this.#lock?.[Symbol.asyncDispose]();
  }
}

/** What LevelDB does not report of itself is read from its files: its own log, and what it notes for people. */
class OwnFiles {
  bufferBytes = 0;
  ownLogBytes = 0;
  stalls = 0;
  readonly #directory: string;
  /** The size of each log file when it was last looked at. */
  #sizes: ReadonlyMap<number, number> = new Map();
  #notesRead = 0;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** `logs` are the numbers of its log files. */
  look(logs: readonly number[]): void {
    const sizes = logs.map((log) => [log, this.#sizeOf(logName(log))] as const);
    for (const [log, size] of sizes) this.ownLogBytes += size - (this.#sizes.get(log) ?? 0);
    this.#sizes = new Map(sizes);
    this.bufferBytes = sizes.reduce((sum, [, size]) => sum + size, 0);
    this.stalls += this.#newNotes().match(stallNote)?.length ?? 0;
  }

  /** LevelDB has begun a new file of notes. */
  reopened(): void {
    this.#notesRead = 0;
  }

  #newNotes(): string {
    const bytes = Buffer.alloc(Math.max(0, this.#sizeOf(notesName) - this.#notesRead));
    if (bytes.length === 0) return "";
    const file = openSync(join(this.#directory, notesName), "r");
    try {
      const read = readSync(file, bytes, 0, bytes.length, this.#notesRead);
      // A line that is being written is read the next time.
      const whole = bytes.lastIndexOf("\n", read) + 1;
      this.#notesRead += whole;
      return bytes.toString("latin1", 0, whole);
    } finally {
      closeSync(file);
    }
  }

  /** LevelDB may have removed the file since it was listed. */
  #sizeOf(name: string): number {
    return statSync(join(this.#directory, name), { throwIfNoEntry: false })?.size ?? 0;
  }
}

type ChainedBatch = ReturnType<Database["batch"]>;

/**
 * The part of a batch below encodings and hooks, none of which are used here. Without them a write costs a third,
 * and a flush consists mostly of writes.
 */
interface PlainBatch extends ChainedBatch {
  _put(key: string, value: Buffer): void;
  _del(key: string): void;
}

class LevelBatch implements KvBatch {
  readonly #batch: PlainBatch;
  /** The first write takes the normal way, because a batch that has counted no write is not written. */
  #isCounted = false;

  constructor(batch: PlainBatch) {
    this.#batch = batch;
  }

  put(key: string, value: Buffer): void {
    if (this.#isCounted) this.#batch._put(key, value);
    else this.#batch.put(key, value);
    this.#isCounted = true;
  }

  del(key: string): void {
    if (this.#isCounted) this.#batch._del(key);
    else this.#batch.del(key);
    this.#isCounted = true;
  }

  async write(options: { readonly sync: boolean }): Promise<void> {
    try {
      await this.#batch.write(options);
    } catch (error) {
      throw asFault(error);
    }
  }

  close(): Promise<void> {
    return this.#batch.close();
  }
}

/** Safe, because the commit log has everything that they contain. */
function removeLogs(directory: string, logs: readonly number[]): void {
  for (const number of logs) rmSync(join(directory, logName(number)));
}

async function openDatabase(
  directory: string,
  createIfMissing: boolean,
  sizes: LevelSizes,
): Promise<Database> {
  const database: Database = new ClassicLevel(directory, {
    createIfMissing,
    keyEncoding: "utf8",
    valueEncoding: "buffer",
    cacheSize: sizes.cacheBytes,
    writeBufferSize: sizes.writeBufferBytes,
    // New keys go to the ends of a few ranges. Small files keep the rest out of compactions: with
    // 64 MiB they rewrite almost twice as much, and larger files spare only open descriptors.
    maxFileSize: 4 * mebibyte,
    // The constructor does not open the database, so that the error of `open` can be translated here.
    passive: false,
  } as ConstructorParameters<typeof ClassicLevel<string, Buffer>>[1]);
  try {
    await database.open();
  } catch (error) {
    throw asFault(error);
  }
  return database;
}

function asFault(error: unknown): FaultError {
  const cause = (error as { cause?: { code?: string; message?: string } }).cause;
  const text = `${cause?.message ?? ""} ${(error as Error).message}`;
  const { code } = error as { code?: string };
  // An error with a cause is about opening, and the cause says what happened.
  if (cause === undefined && /^LEVEL_(DATABASE|ITERATOR)_NOT_OPEN$/.test(code ?? "")) {
    return new FaultError("closed", "the key-value store is closed", error);
  }
  if (cause?.code === "LEVEL_LOCKED" || /lock .*(held|temporarily)/i.test(text)) {
    return new FaultError("locked", "the data directory is in use by another process", error);
  }
  if (isDiskFull(error) || text.includes("No space left")) {
    return new FaultError("disk_full", "no space left for the key-value store", error);
  }
  if ([code, cause?.code].includes("LEVEL_CORRUPTION") || text.includes("Corruption:")) {
    return new FaultError("corrupt", `the key-value store is damaged: ${text.trim()}`, error);
  }
  return new FaultError("storage_failed", `the key-value store failed: ${text.trim()}`, error);
}
