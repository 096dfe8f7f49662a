/**
 * A range over the kv with overlays on top, newest last. Everything it reads is fixed when it is
 * called: the overlays' entries are copied and the kv's cursor is a view of that moment, so commits
 * and flushes that happen meanwhile are not seen in part.
 */
import type { Kv, KvCursor, KvEntry, KvRange } from "./kv/kv.ts";
import type { Overlay } from "./overlay.ts";

const pieceMax = 1000;

export async function mergedScan(scan: {
  readonly kv: Kv;
  readonly overlays: readonly Overlay[];
  readonly range: KvRange;
  readonly limit: number;
}): Promise<KvEntry[]> {
  const cursor = scan.kv.cursor(scan.range);
  const above = overlaid(scan.overlays, scan.range);
  try {
    return await merge(cursor, above, scan.limit);
  } finally {
    await cursor.close();
  }
}

type Overlaid = readonly [string, Buffer | undefined];

function overlaid(overlays: readonly Overlay[], range: KvRange): Overlaid[] {
  const newest = new Map<string, Buffer | undefined>();
  for (const overlay of overlays) {
    for (const [key, entry] of overlay.range(range.after, range.before)) {
      newest.set(key, entry.value);
    }
  }
  return [...newest].sort((a, b) => (a[0] < b[0] ? -1 : 1));
}

async function merge(
  cursor: KvCursor,
  above: readonly Overlaid[],
  limit: number,
): Promise<KvEntry[]> {
  const found: KvEntry[] = [];
  let next = 0;
  const takeAbove = (): void => {
    const [key, value] = above[next] as Overlaid;
    next += 1;
    if (value !== undefined) found.push([key, value]);
  };
  while (found.length < limit) {
    const piece = await cursor.next(Math.min(limit - found.length, pieceMax));
    if (piece.length === 0) break;
    for (const entry of piece) {
      while (next < above.length && (above[next] as Overlaid)[0] < entry[0]) takeAbove();
      if (above[next]?.[0] === entry[0]) takeAbove();
      else found.push(entry);
    }
  }
  while (next < above.length && found.length < limit) takeAbove();
  return found.slice(0, limit);
}
