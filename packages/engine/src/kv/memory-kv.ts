/**
 * A kv in memory: a map and its sorted keys. The contents may be passed in, so that a simulated
 * restart opens what the crashed process had written; `beforeWrite` lets a simulated disk delay a
 * batch, fail it, or never finish it.
 */
import type {
  Kv,
  KvBatch,
  KvCursor,
  KvEntry,
  KvRange,
  KvStats,
  KvTextCursor,
  KvWrite,
} from "./kv.ts";

export interface MemoryKvOptions {
  readonly contents?: Map<string, Buffer>;
  readonly beforeWrite?: () => Promise<void>;
}

export class MemoryKv implements Kv {
  readonly #contents: Map<string, Buffer>;
  readonly #beforeWrite: () => Promise<void>;
  #sorted: string[] | undefined;
  /** Cursors that have not read everything; they copy the rest before it changes. */
  readonly #reading: Set<MemoryCursor> = new Set();

  constructor(options: MemoryKvOptions = {}) {
    this.#contents = options.contents ?? new Map();
    this.#beforeWrite = options.beforeWrite ?? (() => Promise.resolve());
  }

  get(key: string): Buffer | undefined {
    return this.#contents.get(key);
  }

  getText(key: string): string | undefined {
    return this.#contents.get(key)?.toString("utf8");
  }

  textCursor(range: KvRange): KvTextCursor {
    const cursor = this.#cursor(range);
    return {
      next: async (count) =>
        (await cursor.next(count)).map(([key, value]) => [key, value.toString("utf8")] as const),
      skipTo: (key) => cursor.skipTo(key),
      close: () => cursor.close(),
    };
  }

  cursor(range: KvRange): KvCursor {
    return this.#cursor(range);
  }

  #cursor(range: KvRange): MemoryCursor {
    this.#sorted ??= [...this.#contents.keys()].sort();
    const start = firstAfter(this.#sorted, range.after);
    const end = Math.max(start, firstAfter(this.#sorted, range.before, true));
    const keys = this.#sorted.slice(start, end);
    if (range.isReverse === true) keys.reverse();
    const cursor = new MemoryCursor(this.#contents, keys, this.#reading);
    this.#reading.add(cursor);
    return cursor;
  }

  batch(): KvBatch {
    return new CollectedBatch((writes) => this.write(writes));
  }

  /** Takes ownership of the writes. */
  async write(writes: readonly KvWrite[]): Promise<void> {
    await this.#beforeWrite();
    for (const cursor of this.#reading) cursor.takeAll();
    for (const { key, value } of writes) {
      if (value === undefined) this.#contents.delete(key);
      else this.#contents.set(key, value);
    }
    this.#sorted = undefined;
  }

  recover(): Promise<void> {
    return Promise.resolve();
  }

  stats(): KvStats {
    return {
      levels: [],
      readAmplification: 0,
      compactionBacklogBytes: 0,
      memoryBytes: 0,
      bufferBytes: 0,
      ownLogBytes: 0,
      stalls: 0,
      cacheBytesMax: 0,
    };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Collects writes and passes them on together. */
export class CollectedBatch implements KvBatch {
  readonly #write: (writes: readonly KvWrite[]) => Promise<void>;
  #writes: KvWrite[] = [];

  constructor(write: (writes: readonly KvWrite[]) => Promise<void>) {
    this.#write = write;
  }

  put(key: string, value: Buffer): void {
    // A view would keep the caller's whole buffer alive and change with it.
    this.#writes.push({ key, value: Buffer.from(value) });
  }

  del(key: string): void {
    this.#writes.push({ key, value: undefined });
  }

  async write(): Promise<void> {
    const writes = this.#writes;
    this.#writes = [];
    await this.#write(writes);
  }

  close(): Promise<void> {
    this.#writes = [];
    return Promise.resolve();
  }
}

class MemoryCursor implements KvCursor {
  readonly #contents: ReadonlyMap<string, Buffer>;
  readonly #keys: readonly string[];
  readonly #reading: Set<MemoryCursor>;
  #taken: KvEntry[] | undefined;
  #at = 0;

  constructor(
    contents: ReadonlyMap<string, Buffer>,
    keys: readonly string[],
    reading: Set<MemoryCursor>,
  ) {
    this.#contents = contents;
    this.#keys = keys;
    this.#reading = reading;
  }

  async next(count: number): Promise<KvEntry[]> {
    const from = this.#at;
    this.#at += count;
    if (this.#taken !== undefined) return this.#taken.slice(from, this.#at);
    return this.#keys.slice(from, this.#at).map((key) => this.#entry(key));
  }

  skipTo(key: string): void {
    this.#at = firstAfter(this.#keys, key, true);
  }

  async close(): Promise<void> {
    this.#reading.delete(this);
  }

  takeAll(): void {
    this.#taken = this.#keys.map((key) => this.#entry(key));
    this.#reading.delete(this);
  }

  #entry(key: string): KvEntry {
    return [key, this.#contents.get(key) as Buffer];
  }
}

/** Position of the first key greater than `key`, or equal to it when `orEqual` is set. */
function firstAfter(keys: readonly string[], key: string, orEqual = false): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const candidate = keys[middle] as string;
    if (candidate > key || (orEqual && candidate === key)) high = middle;
    else low = middle + 1;
  }
  return low;
}
