/**
 * Keys that follow from what another key holds, such as the place of a task in its queue. Neither the
 * log nor memory has them: whoever commits a record says which row it holds, and the flush writes how
 * the index keys of the new row differ from those of the old one. Scans see them before that; reads of
 * single keys do not.
 */
import type { KvRange, KvWrite } from "./kv/kv.ts";

/** What index keys follow from; the engine does not look into it. */
export type Row = object;

export interface Indexing {
  /** Keys that begin like this hold rows. */
  readonly prefix: string;
  /** The row that a value holds; undefined when it cannot be read. */
  rowOf(text: string): Row | undefined;
  /**
   * Tells rows apart that may have an index key in the range from those that have none; undefined when
   * no row has. A scan asks only the former for their keys, which costs much more.
   */
  rowsIn(range: KvRange): ((row: Row) => boolean) | undefined;
  /** No two rows have one in common. */
  keysOf(row: Row): readonly string[];
  /** What each index key of the row holds. */
  valueOf(row: Row): Buffer;
}

/** The row that is there now, and the one that was there before the generation began. */
export interface RowChange {
  readonly row: Row | undefined;
  readonly below: Row | undefined;
}

const none: readonly string[] = [];

/** The writes that bring the index keys of a record from the old row to the new one. */
export function indexWrites({ row, below }: RowChange, indexing: Indexing): readonly KvWrite[] {
  const writes: KvWrite[] = [];
  if (row === below) return writes;
  const from = below === undefined ? none : indexing.keysOf(below);
  const to = row === undefined ? none : indexing.keysOf(row);
  for (const key of from) if (!to.includes(key)) writes.push({ key, value: undefined });
  if (row === undefined) return writes;
  for (const key of to) if (!from.includes(key)) writes.push({ key, value: indexing.valueOf(row) });
  return writes;
}
