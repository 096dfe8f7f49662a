/**
 * A range over the kv with overlays on top, newest last. Everything it reads is fixed when it is
 * called: the overlays' entries are copied and the kv's cursor is a view of that moment, so commits
 * and flushes that happen meanwhile are not seen in part.
 */
import type { KvCursor, KvRange } from "./kv/kv.ts";
import type { Overlay, OverlayEntry } from "./overlay.ts";

const pieceMax = 1000;

type Entry<Value> = readonly [key: string, value: Value];

export async function mergedScan<Value>(scan: {
  /** A view of the range, made in the same turn. */
  readonly cursor: KvCursor<Value>;
  readonly overlays: readonly Overlay[];
  readonly read: (entry: OverlayEntry) => Value | undefined;
  readonly range: KvRange;
  readonly limit: number;
}): Promise<Entry<Value>[]> {
  const { cursor, limit } = scan;
  const newest = new Map<string, Value | undefined>();
  for (const overlay of scan.overlays) {
    for (const [key, entry] of overlay.range(scan.range.after, scan.range.before)) {
      newest.set(key, scan.read(entry));
    }
  }
  const above = [...newest].sort((a, b) => (a[0] < b[0] ? -1 : 1));
  try {
    return await merge(cursor, above, limit);
  } finally {
    await cursor.close();
  }
}

async function merge<Value>(
  cursor: KvCursor<Value>,
  above: readonly Entry<Value | undefined>[],
  limit: number,
): Promise<Entry<Value>[]> {
  const found: Entry<Value>[] = [];
  let next = 0;
  const takeAbove = (): void => {
    const [key, value] = above[next] as Entry<Value | undefined>;
    next += 1;
    if (value !== undefined) found.push([key, value]);
  };
  while (found.length < limit) {
    const piece = await cursor.next(Math.min(limit - found.length, pieceMax));
    if (piece.length === 0) break;
    for (const entry of piece) {
      while (next < above.length && (above[next]?.[0] as string) < entry[0]) takeAbove();
      if (above[next]?.[0] === entry[0]) takeAbove();
      else found.push(entry);
    }
  }
  while (next < above.length && found.length < limit) takeAbove();
  return found.slice(0, limit);
}
