/**
 * A range over the kv with overlays on top, newest last. Everything it reads is fixed when it is
 * called: the overlays' entries are copied and the kv's cursor is a view of that moment, so commits
 * and flushes that happen meanwhile are not seen in part.
 */
import { type Indexing, indexWrites, type Row } from "./index-keys.ts";
import type { Kv, KvCursor, KvEntry, KvRange, KvWrite } from "./kv/kv.ts";
import type { Overlay } from "./overlay.ts";

const pieceMax = 1000;

type Entry<Value> = readonly [key: string, value: Value];

/** What memory has for a key; without a value when the key was deleted. */
type Written = Pick<KvWrite, "value">;

/** Where values lie. */
export interface Layers {
  readonly kv: Kv;
  /** The oldest generation first. */
  readonly overlays: readonly Overlay[];
  readonly indexing: Indexing;
}

export async function scanEntries(
  layers: Layers,
  range: KvRange,
  limit: number,
): Promise<KvEntry[]> {
  const cursor = layers.kv.cursor(range);
  return mergedScan(
    cursor,
    newestIn(layers, range, ({ value }) => value),
    limit,
  );
}

export async function scanKeys(layers: Layers, range: KvRange, limit: number): Promise<string[]> {
  const cursor = layers.kv.textCursor(range);
  const above = newestIn(layers, range, ({ value }) => value && "");
  return (await mergedScan(cursor, above, limit)).map(([key]) => key);
}

/** What memory has in the range, in order; undefined where a key was deleted. */
function newestIn<Value>(
  layers: Layers,
  range: KvRange,
  read: (written: Written) => Value | undefined,
): Entry<Value | undefined>[] {
  const newest = new Map<string, Value | undefined>();
  for (const [key, written] of inMemory(layers, range)) newest.set(key, read(written));
  return [...newest].sort((a, b) => (a[0] < b[0] ? -1 : 1));
}

/** The cursor is a view that was made in the same turn as the rest. */
async function mergedScan<Value>(
  cursor: KvCursor<Value>,
  above: readonly Entry<Value | undefined>[],
  limit: number,
): Promise<Entry<Value>[]> {
  try {
    return await merge(cursor, above, limit);
  } finally {
    await cursor.close();
  }
}

/** What lies in the range, oldest generation first; within one, the index keys come last. */
function* inMemory({ overlays, indexing }: Layers, range: KvRange): Generator<Entry<Written>> {
  const mayHave = indexing.rowsIn(range);
  for (const { entries } of overlays) {
    for (const [key, entry] of entries) if (lies(key, range)) yield [key, entry];
    if (mayHave === undefined) continue;
    for (const { key, value } of indexWritesOf(entries, mayHave, indexing)) {
      if (lies(key, range)) yield [key, { value }];
    }
  }
}

/** Those of the rows that are asked for; most others are not worth making their keys. */
function* indexWritesOf(
  entries: Overlay["entries"],
  isAsked: (row: Row) => boolean,
  indexing: Indexing,
): Generator<KvWrite> {
  for (const entry of entries.values()) {
    const { row, below } = entry;
    const mayMatter = (row && isAsked(row)) || (below && isAsked(below));
    if (mayMatter === true) yield* indexWrites(entry, indexing);
  }
}

function lies(key: string, { after, before }: KvRange): boolean {
  return key > after && key < before;
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
