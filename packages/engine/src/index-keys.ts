/**
 * Keys that follow from rows. Neither the log nor memory has them: the flush writes how the index keys
 * of the newest row differ from those of the row in the kv. Scans see them before that; reads of single
 * keys do not.
 */
import type { Row, RowCodec } from "./row-codec.ts";

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
