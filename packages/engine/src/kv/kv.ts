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

/** Writes that are applied together, in order. Nothing of them shows before. */
export interface KvBatch {
  /** Copies the value; the caller may use its memory again at once. */
  put(key: string, value: Buffer): void;
  del(key: string): void;
  /** Applies all writes or none, durably when `sync` is set. The batch is used up, also by a fault. */
  write(options: { readonly sync: boolean }): Promise<void>;
  /** Gives up what was not written. */
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

export interface KvStats {
  /** Files and bytes per level, level 0 first; empty where the store has no levels. */
  readonly levels: readonly { readonly files: number; readonly bytes: number }[];
  readonly compactionSeconds: number;
  readonly compactionReadBytes: number;
  readonly compactionWriteBytes: number;
  /** Tables that a read of one key may have to look into. */
  readonly readAmplification: number;
  /** What compactions have to rewrite before each level has the size that it should have. */
  readonly compactionBacklogBytes: number;
  readonly memoryBytes: number;
  /** How much of the memory may be a cache of what is on disk. */
  readonly cacheBytesMax: number;
}

/**
 * A store whose batches are not durable when they were written, whatever `sync` says: a power failure,
 * and the end of the process, take it back to an earlier batch. The log is needed from there on.
 */
export interface KvFiles {
  /**
   * Everything up to this index of the log has been written; returns up to which index it is durable.
   */
  noteWritten(index: number): Promise<number>;
  /** Makes what was noted durable, as far as there is room for it; returns up to which index. */
  makeDurable(): Promise<number>;
  /** Gives back the room of what was deleted or replaced; takes as long as it takes. */
  reclaim(): Promise<void>;
  /** Reads all files and throws `corrupt` when one is not what was written. */
  scrub(): Promise<void>;
}

export interface Kv {
  /** Undefined where a batch that was written with `sync` is durable. */
  readonly files?: KvFiles;
  get(key: string): Buffer | undefined;
  /** The value read as UTF-8, which costs less than bytes that become text afterwards. */
  getText(key: string): string | undefined;
  /** A view of the range as it is at this moment, whatever is written afterwards. */
  cursor(range: KvRange): KvCursor;
  /** The same, with the values read as UTF-8. */
  textCursor(range: KvRange): KvCursor<string>;
  /** Begins a batch of writes; one at a time. */
  batch(): KvBatch;
  /**
   * Makes the store writable again after a batch that failed, and keeps what was written before. Reads
   * that meet it may be refused with `disk_full`; cursors that are open may end with a fault.
   */
  recover(): Promise<void>;
  stats(): KvStats;
  close(): Promise<void>;
}
