/**
 * The LSM binding (LevelDB through classic-level). Opening takes the directory's exclusive lock,
 * which the operating system releases when the process ends, however it ends.
 *
 * Batches are collected outside of the JavaScript heap, and written off the JavaScript thread as one
 * atomic write.
 */
import { readdirSync, statfsSync, statSync } from "node:fs";
import { join } from "node:path";
import { ClassicLevel } from "classic-level";
import { FaultError, isDiskFull } from "../fault.ts";
import type { Kv, KvBatch, KvCursor, KvRange, KvStats } from "./kv.ts";

type Database = ClassicLevel<string, Buffer>;

const mebibyte = 1024 * 1024;
const asText = { valueEncoding: "utf8" } as const;
/** For what opening writes besides the table. */
const openingBytes = mebibyte;
const noStats: KvStats = {
  levels: [],
  compactionSeconds: 0,
  compactionReadBytes: 0,
  compactionWriteBytes: 0,
  memoryBytes: 0,
};

export class LevelKv implements Kv {
  readonly #directory: string;
  #database: Database;
  /** Closed to be opened anew; what is asked meanwhile is refused with the reason for it. */
  #isRecovering = false;

  private constructor(directory: string, database: Database) {
    this.#directory = directory;
    this.#database = database;
  }

  static async open(directory: string): Promise<LevelKv> {
    return new LevelKv(directory, await openDatabase(directory));
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

  textCursor(range: KvRange): KvCursor<string> {
    return this.#cursor(range, asText);
  }

  #cursor<Value>(range: KvRange, encoding: { valueEncoding?: "utf8" }): KvCursor<Value> {
    if (this.#isRecovering) throw this.#readFault(undefined);
    const iterator = this.#database.iterator<string, Value>({
      gt: range.after,
      lt: range.before,
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
      close: () => iterator.close(),
    };
  }

  #readFault(error: unknown): FaultError {
    if (!this.#isRecovering) return asFault(error);
    return new FaultError("disk_full", "the key-value store is being opened anew", error);
  }

  batch(): KvBatch {
    if (this.#isRecovering) throw this.#readFault(undefined);
    return new LevelBatch(this.#database.batch() as PlainBatch);
  }

  /**
   * LevelDB refuses all writes after one that failed until it is opened anew. That writes its own
   * log into a table; without room for it the store would stay closed and could not even be read.
   */
  async recover(): Promise<void> {
    this.#assertRoom();
    this.#isRecovering = true;
    await this.#database.close();
    this.#database = await openDatabase(this.#directory);
    this.#isRecovering = false;
  }

  #assertRoom(): void {
    const names = readdirSync(this.#directory).filter((name) => name.endsWith(".log"));
    const sizes = names.map((name) => statSync(join(this.#directory, name)).size);
    const needed = sizes.reduce((sum, size) => sum + size, openingBytes);
    const { bavail, bsize } = statfsSync(this.#directory);
    if (bavail * bsize >= needed) return;
    throw new FaultError("disk_full", `the key-value store needs ${needed} bytes to be opened`);
  }

  stats(): KvStats {
    if (this.#database.status !== "open") return noStats;
    const levels = parseLevels(this.#database.getProperty("leveldb.stats"));
    const total = (pick: (level: LevelRow) => number): number =>
      levels.reduce((sum, level) => sum + pick(level), 0);
    return {
      levels: levels.map(({ files, bytes }) => ({ files, bytes })),
      compactionSeconds: total((level) => level.seconds),
      compactionReadBytes: total((level) => level.readBytes),
      compactionWriteBytes: total((level) => level.writeBytes),
      memoryBytes: Number(this.#database.getProperty("leveldb.approximate-memory-usage")),
    };
  }

  async close(): Promise<void> {
    await this.#database.close();
  }
}

type ChainedBatch = ReturnType<Database["batch"]>;

/**
 * The part of a batch below encodings and hooks, none of which are used here. A write costs a third of
 * what it does with them, and a flush is little else.
 */
interface PlainBatch extends ChainedBatch {
  _put(key: string, value: Buffer): void;
  _del(key: string): void;
}

class LevelBatch implements KvBatch {
  readonly #batch: PlainBatch;
  /** The first write is made the long way: a batch that has counted none is not written. */
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

async function openDatabase(directory: string): Promise<Database> {
  const database: Database = new ClassicLevel(directory, {
    keyEncoding: "utf8",
    valueEncoding: "buffer",
    // Reads of records come from the overlay or in passes over ranges, which leave the cache alone.
    cacheSize: 32 * mebibyte,
    // Held up to twice. Half of it doubles the work of compactions; more saves little.
    writeBufferSize: 32 * mebibyte,
    // New keys go to the ends of a few ranges. Small files keep the rest out of compactions: with
    // 64 MiB they rewrite almost twice as much, and larger files spare only open descriptors.
    maxFileSize: 4 * mebibyte,
    // Passive until `open` is called here, so that its error is ours to translate.
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
  // With a cause it is about opening, and the cause tells what happened.
  if (cause === undefined && /^LEVEL_(DATABASE|ITERATOR)_NOT_OPEN$/.test(code ?? "")) {
    return new FaultError("closed", "the key-value store is closed", error);
  }
  if (cause?.code === "LEVEL_LOCKED" || /lock .*(held|temporarily)/i.test(text)) {
    return new FaultError("locked", "the data directory is in use by another process", error);
  }
  if (isDiskFull(error) || text.includes("No space left")) {
    return new FaultError("disk_full", "no space left for the key-value store", error);
  }
  if (cause?.code === "LEVEL_CORRUPTION") {
    return new FaultError("corrupt", `the key-value store is damaged: ${text.trim()}`, error);
  }
  return new FaultError("storage_failed", `the key-value store failed: ${text.trim()}`, error);
}

interface LevelRow {
  readonly files: number;
  readonly bytes: number;
  readonly seconds: number;
  readonly readBytes: number;
  readonly writeBytes: number;
}

/** Reads LevelDB's own table: level, files, size MB, seconds, read MB, written MB. */
function parseLevels(text: string): LevelRow[] {
  const rows: LevelRow[] = [];
  for (const line of text.split("\n")) {
    const cells = line.trim().split(/\s+/).map(Number);
    if (cells.length !== 6 || cells.some(Number.isNaN)) continue;
    const [level, files, size, seconds, read, write] = cells as [
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    rows[level] = {
      files,
      bytes: size * mebibyte,
      seconds,
      readBytes: read * mebibyte,
      writeBytes: write * mebibyte,
    };
  }
  return Array.from(rows, (row) => row ?? emptyRow);
}

const emptyRow: LevelRow = { files: 0, bytes: 0, seconds: 0, readBytes: 0, writeBytes: 0 };
