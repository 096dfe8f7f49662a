/**
 * Ordered bytes with atomic batches. Keys are ASCII strings, ordered by character.
 * One `write` at a time; reads see every write that finished before they began.
 */
export type KvEntry<Value = Buffer> = readonly [key: string, value: Value];

/** A put, or a delete when `value` is undefined. */
export interface KvWrite {
  readonly key: string;
  readonly value: Buffer | undefined;
}

export interface KvRange {
  /** Keys greater than this. */
  readonly after: string;
  /** Keys less than this. */
  readonly before: string;
}

export interface KvCursor<Value = Buffer> {
  /** The next entries in order, at most `count`; empty at the end. */
  next(count: number): Promise<KvEntry<Value>[]>;
  close(): Promise<void>;
}

export interface KvStats {
  /** Files and bytes per level, level 0 first; empty where the store has no levels. */
  readonly levels: readonly { readonly files: number; readonly bytes: number }[];
  readonly compactionSeconds: number;
  readonly compactionReadBytes: number;
  readonly compactionWriteBytes: number;
  readonly memoryBytes: number;
}

export interface Kv {
  get(key: string): Buffer | undefined;
  /** The value read as UTF-8, which costs less than bytes that become text afterwards. */
  getText(key: string): string | undefined;
  /** A view of the range as it is at this moment, whatever is written afterwards. */
  cursor(range: KvRange): KvCursor;
  /** The same, with the values read as UTF-8. */
  textCursor(range: KvRange): KvCursor<string>;
  /**
   * Applies all writes or none, in order, durably when `sync` is set. The iterable is consumed
   * piecewise so that a large batch does not hold up the event loop.
   */
  write(writes: Iterable<KvWrite>, options: { readonly sync: boolean }): Promise<void>;
  /**
   * Makes the store writable again after a `write` that failed. Reads that meet it may be refused
   * with `disk_full`; cursors that are open may end with a fault.
   */
  recover(): Promise<void>;
  stats(): KvStats;
  close(): Promise<void>;
}
