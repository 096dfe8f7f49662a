/**
 * Rows: the records of the store, which the engine holds as objects and knows through a codec. The log
 * has what changed of a row, the kv has it whole, and memory has neither bytes nor keys of it. Index
 * keys, such as the place of a task in its queue, follow from the row and are written with it.
 */
import type { KvRange } from "./kv/kv.ts";

/** A record of the store as an object; the engine does not look into it. Immutable. */
export type Row = object;

/** What the store tells the engine about its rows: how they are written, read and indexed. */
export interface RowCodec {
  /** The key of a row in the kv is this prefix and its id. No other key begins like it. */
  readonly prefix: string;
  /** ASCII, at most 255 characters. */
  idOf(row: Row): string;
  /** At least as many bytes as `write` takes. */
  roomOf(after: Row, before: Row | undefined): number;
  /**
   * Writes how `after` differs from `before`, or all of it when there was nothing before; returns
   * where it ends.
   */
  write(buffer: Buffer, at: number, after: Row, before: Row | undefined): number;
  /**
   * What the bytes make of `before`; undefined when they cannot be read: damaged, of a foreign version,
   * or a difference without a row that it applies to. Keeps no view of the buffer.
   */
  read(
    buffer: Buffer,
    start: number,
    end: number,
    id: string,
    before: Row | undefined,
  ): Row | undefined;
  /**
   * Tells rows apart that may have an index key in the range from those that have none; undefined when
   * no row has. A scan asks only the former for their keys, which costs much more.
   */
  rowsIn(range: KvRange): ((row: Row) => boolean) | undefined;
  /** No two rows have one in common, and none begins with the prefix. */
  keysOf(row: Row): readonly string[];
  /** Whether rows have index keys like this one. */
  isIndexKey(key: string): boolean;
  /** What each index key of the row holds. */
  valueOf(row: Row): Buffer;
}

/** One row from one state to the next. */
export interface RowChange {
  /** The newest state until now; undefined when the row is new. */
  readonly before: Row | undefined;
  /** Undefined when the row goes. */
  readonly after: Row | undefined;
  /** Worth its place in memory after it was flushed. */
  readonly keep?: boolean;
}

/** The record of a row in the kv, in memory of its own. */
export function recordOf(row: Row, codec: RowCodec): Buffer {
  const buffer = Buffer.allocUnsafe(codec.roomOf(row, undefined));
  return buffer.subarray(0, codec.write(buffer, 0, row, undefined));
}
