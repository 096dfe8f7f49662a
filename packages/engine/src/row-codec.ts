/**
 * Rows: the records of the store, which the engine holds as objects and knows through a codec. The log
 * has what changed of a row, the kv has it whole, and memory has neither bytes nor keys of it.
 *
 * Index keys, such as the place of a task in its queue, follow from the row. Neither the log nor memory has them:
 * the flush writes how the index keys of the newest row differ from those of the row in the kv. Scans see them
 * before that; reads of single keys do not.
 */
import type { KvRange } from "./kv/kv.ts";

/** A record of the store as an object; the engine does not look into it. Immutable. */
export type Row = object;

/** How the rows of a store are written, read and indexed. */
export interface RowCodec {
  /** The key of a row in the kv is this prefix and its id. No other key begins like it. */
  readonly prefix: string;
  /** ASCII, at most 255 characters. */
  idOf(row: Row): string;
  /** At least as many bytes as `write` takes. */
  bytesMaxOf(after: Row, before: Row | undefined): number;
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
   * A filter for rows that may have an index key in the range; undefined when no row has one. A scan computes the
   * keys of these rows only, which costs much more than the filter.
   */
  rowsIn(range: KvRange): ((row: Row) => boolean) | undefined;
  /** Index keys: no two rows share a key, and no key begins with the prefix. */
  keysOf(row: Row): readonly string[];
  /** Whether rows have index keys like this one. */
  isIndexKey(key: string): boolean;
  /** The value of each index key of the row. */
  valueOf(row: Row): Buffer;
}

/** One row from one state to the next. */
export interface RowChange {
  /** The newest state until now; undefined when the row is new. */
  readonly before: Row | undefined;
  /** Undefined when the row is deleted. */
  readonly after: Row | undefined;
  /** Worth its place in memory after it was flushed. */
  readonly keep?: boolean;
}

/** The record of a row in the kv, in memory of its own. */
export function recordOf(row: Row, codec: RowCodec): Buffer {
  const buffer = Buffer.allocUnsafe(codec.bytesMaxOf(row, undefined));
  return buffer.subarray(0, codec.write(buffer, 0, row, undefined));
}

/** Takes writes one by one, such as a batch of the kv. */
export interface KeyWrites {
  put(key: string, value: Buffer): void;
  del(key: string): void;
}

const none: readonly string[] = [];

/** Brings the index keys of a row from its old state to the new one; returns how many it wrote. */
export function writeIndexKeys(
  to: KeyWrites,
  { row, below }: { readonly row: Row | undefined; readonly below: Row | undefined },
  codec: RowCodec,
): number {
  if (row === below) return 0;
  const old = below === undefined ? none : codec.keysOf(below);
  const now = row === undefined ? none : codec.keysOf(row);
  let count = 0;
  for (const key of old) {
    if (now.includes(key)) continue;
    to.del(key);
    count += 1;
  }
  if (row === undefined) return count;
  for (const key of now) {
    if (old.includes(key)) continue;
    to.put(key, codec.valueOf(row));
    count += 1;
  }
  return count;
}
