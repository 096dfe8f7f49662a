/**
 * The commit log: records in one order, each with an index one higher than the one before.
 * A record that `append` acknowledged is read back after a crash, as far as the durability mode
 * promises it; one that was not acknowledged may be there or not, but never in part.
 */
import type { FaultError } from "../fault.ts";

/** Bytes that the caller leaves at the front of a frame for the header. */
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

/** How many appends may be under way at once. A third gains nothing on the disks that were measured. */
export const appendsInFlightMax = 2;

/** Called with the result of an append and the index of its record. */
export type Appended = (fault: FaultError | undefined, index: number) => void;

export interface Log {
  /** Index of the oldest record kept; `lastIndex + 1` when there is none. */
  readonly firstIndex: number;
  /** Index of the newest record that was acknowledged; 0 before the first. */
  readonly lastIndex: number;
  /** Bytes of the segments on disk. */
  readonly bytes: number;
  /** Whether there is room for another append; true again when an append ends. */
  readonly canAppend: boolean;
  /**
   * Writes one record after the last one that was given. `appended` is called once, after `append`
   * has returned, and in the order of the log: without a fault when the record and all before it are
   * kept; with `disk_full` when neither the record nor any record behind it was kept, and the log continues
   * after the last kept record; with `storage_failed` for every other failure, and from then on for every call.
   */
  append(frame: Frame, appended: Appended): void;
  /** Makes every appended record durable. The same faults as `append`. */
  sync(): Promise<void>;
  /** Records from `index` on, up to the last one at the time of the call. */
  readFrom(index: number): AsyncIterable<LogRecord>;
  /** Allows removal of the records below `index`; keeps what shares a segment with later ones. */
  trim(index: number): Promise<void>;
  /** Frees the room that was prepared for later records, if any. */
  release?(): Promise<void>;
  /** Shared logs only: how long a busy log waits before an append, so that the append has more batches. */
  readonly gatherMs?: number | undefined;
  /** Shared logs only: whether the log takes no more records until it is trimmed. */
  readonly isFull?: boolean;
  /** Shared logs only: whether the log has become too long to be kept for the next backup. */
  readonly holdsMuch?: boolean;
  /** Shared logs only: the position of a record, as text that is stored with the position of the kv. */
  positionOf?(index: number): string;
  close(): Promise<void>;
}
