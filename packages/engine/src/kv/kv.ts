/**
 * Ordered bytes with atomic batches. Keys are ASCII strings, ordered by character.
 * One batch at a time; reads see every batch that was written before they began.
 */
export type KvEntry<Value = Buffer> = readonly [key: string, value: Value];

/** A put, or a delete when `value` is undefined. */
export interface KvWrite {
  readonly key: string;
  readonly value: Buffer | undefined;
}

/** Writes that are applied together, in order. Reads do not see them before that. */
export interface KvBatch {
  /** Copies the value; the caller may use its memory again at once. */
  put(key: string, value: Buffer): void;
  del(key: string): void;
  /** Applies all writes or none, durably when `sync` is set. The batch is used up, also by a fault. */
  write(options: { readonly sync: boolean }): Promise<void>;
  /** Drops writes that were not applied. */
  close(): Promise<void>;
}

export interface KvRange {
  /** Keys greater than this. */
  readonly after: string;
  /** Keys less than this. */
  readonly before: string;
  /** From the last key to the first. */
  readonly isReverse?: boolean;
}

export interface KvCursor<Value = Buffer> {
  /** The next entries in order, at most `count`; empty at the end. */
  next(count: number): Promise<KvEntry<Value>[]>;
  close(): Promise<void>;
}

export interface KvTextCursor extends KvCursor<string> {
  /** Goes on at the first key that is not less than this one, which lies in the range and is not behind. */
  skipTo(key: string): void;
}

export interface KvLevel {
  readonly files: number;
  readonly bytes: number;
  /** What compactions into this level took, read and wrote. */
  readonly seconds: number;
  readonly readBytes: number;
  readonly writeBytes: number;
}

export interface KvStats {
  /** Level 0 first; empty where the store has no levels. */
  readonly levels: readonly KvLevel[];
  /** Tables that a read of one key may have to look into. */
  readonly readAmplification: number;
  /** Bytes that compactions have to rewrite until each level has its target size. */
  readonly compactionBacklogBytes: number;
  readonly memoryBytes: number;
  /** What the write buffers hold, which is what the store's own log has and its tables have not. */
  readonly bufferBytes: number;
  /** Bytes that were written to the store's own log. */
  readonly ownLogBytes: number;
  /** How often the store let a write wait. */
  readonly stalls: number;
  /** How much of the memory may be a cache of what is on disk. */
  readonly cacheBytesMax: number;
}

/**
 * The files of a store whose batches are not durable after a write, even with `sync`: a power failure or the end
 * of the process takes the store back to an earlier batch. The log is needed from there on.
 */
export interface KvFiles {
  /**
   * Everything up to this index of the log has been written; returns up to which index it is durable.
   */
  noteWritten(index: number): Promise<number>;
  /** Makes what was noted durable, as far as there is room for it; returns up to which index. */
  makeDurable(): Promise<number>;
  /** Frees the room of deleted and replaced entries; may take long. */
  reclaim(): Promise<void>;
  /** Reads all files and throws `corrupt` when one is damaged. */
  scrub(): Promise<void>;
}

export interface Kv {
  /** Undefined for a store in which a batch written with `sync` is durable. */
  readonly files?: KvFiles;
  get(key: string): Buffer | undefined;
  /** The value read as UTF-8, which costs less than bytes that become text afterwards. */
  getText(key: string): string | undefined;
  /** A view of the range as it is at this moment, whatever is written afterwards. */
  cursor(range: KvRange): KvCursor;
  /** The same, with the values read as UTF-8. */
  textCursor(range: KvRange): KvTextCursor;
  /** Begins a batch of writes; one at a time. */
  batch(): KvBatch;
  /**
   * Makes the store writable again after a failed batch, and keeps what was written before. Reads during the
   * recovery may be refused with `disk_full`; open cursors may end with a fault.
   */
  recover(): Promise<void>;
  stats(): KvStats;
  close(): Promise<void>;
}
