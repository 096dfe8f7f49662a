/**
 * The commit log: records in one order, each with an index one higher than the one before.
 * A record that `append` acknowledged is read back after a crash, as far as the durability mode
 * promises it; one that was not acknowledged may be there or not, but never in part.
 */

/** Room that the caller leaves at the front of a frame for the header. */
export const headerBytes = 64;
/** Frames start at multiples of this, so a reader can look for records behind a damaged one. */
export const alignBytes = 64;

export const recordTypes = { batches: 1 } as const;

export interface Frame {
  /** `headerBytes` of room, then the body, then room up to the next multiple of `alignBytes`. */
  readonly buffer: Buffer;
  readonly bodyBytes: number;
  readonly opCount: number;
  readonly type: number;
  readonly timeMs: number;
}

export interface LogRecord {
  readonly index: number;
  readonly type: number;
  readonly shard: number;
  readonly epoch: number;
  readonly writer: number;
  readonly timeMs: number;
  readonly opCount: number;
  /** Valid only until the next record is asked for; copy what is kept. */
  readonly body: Buffer;
}

export interface Log {
  /** Index of the oldest record kept; `lastIndex + 1` when there is none. */
  readonly firstIndex: number;
  /** Index of the newest record; 0 before the first. */
  readonly lastIndex: number;
  /** Bytes of the segments on disk. */
  readonly bytes: number;
  /**
   * Writes one record after the last; one call at a time. Rejects with `disk_full` when nothing was
   * kept and the log is as it was before the call; with `storage_failed` for every other failure, and
   * from then on for every call.
   */
  append(frame: Frame): Promise<number>;
  /** Makes every appended record durable. The same faults as `append`. */
  sync(): Promise<void>;
  /** Records from `index` on, up to the last one at the time of the call. */
  readFrom(index: number): AsyncIterable<LogRecord>;
  /** Allows removal of the records below `index`; keeps what shares a segment with later ones. */
  trim(index: number): Promise<void>;
  close(): Promise<void>;
}
