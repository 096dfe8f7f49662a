/**
 * A range over the kv with overlays on top, newest last. Everything it reads is fixed when it is
 * called: what the overlays have is copied and the kv's cursor is a view of that moment, so commits
 * and flushes that happen meanwhile are not seen in part.
 */
import { type KeyWrites, writeIndexKeys } from "./index-keys.ts";
import { sealedEnd, unseal } from "./kv/checked-value.ts";
import type { Kv, KvCursor, KvEntry, KvRange } from "./kv/kv.ts";
import type { Overlay } from "./overlay.ts";
import { type Row, type RowCodec, recordOf } from "./row-codec.ts";

const pieceMax = 1000;

type Entry<Value> = readonly [key: string, value: Value];

/** What memory has for a key: bytes, a row whose bytes are made when they are needed, or that it is gone. */
type Written = Buffer | { readonly row: Row } | undefined;

/** Where values lie. */
export interface ScannedLayers {
  readonly kv: Kv;
  /** The oldest generation first. */
  readonly overlays: readonly Overlay[];
  readonly rows: RowCodec;
}

export async function scanEntries(
  layers: ScannedLayers,
  range: KvRange,
  limit: number,
): Promise<KvEntry[]> {
  const cursor = unsealed(layers.kv.cursor(range), layers.rows);
  const above = newestIn(layers, range);
  return mergedScan({ cursor, above, limit, range }, (written) =>
    Buffer.isBuffer(written) ? written : recordOf(written.row, layers.rows),
  );
}

/** Rows by their ids, which the range is of; undefined for one whose bytes cannot be read. */
export async function scanRows(
  layers: ScannedLayers,
  ids: KvRange,
  limit: number,
): Promise<(readonly [id: string, row: Row | undefined])[]> {
  const { prefix } = layers.rows;
  const before = ids.before === "" ? endOfAll : ids.before;
  const range = { ...ids, after: prefix + ids.after, before: prefix + before };
  const cursor = rowsOf(layers.kv.cursor(range), layers.rows);
  const above = newestIn(layers, range);
  const found = await mergedScan({ cursor, above, limit, range }, (written) =>
    Buffer.isBuffer(written) ? undefined : written.row,
  );
  return found.map(([key, row]) => [key.slice(prefix.length), row]);
}

/** Behind every id. */
const endOfAll = "~";

function rowsOf(cursor: KvCursor, codec: RowCodec): KvCursor<Row | undefined> {
  const rowOf = (key: string, stored: Buffer): Row | undefined => {
    const end = sealedEnd(key, stored);
    const id = key.slice(codec.prefix.length);
    return end === undefined ? undefined : codec.read(stored, 0, end, id, undefined);
  };
  return {
    next: async (count) =>
      (await cursor.next(count)).map(([key, stored]) => [key, rowOf(key, stored)] as const),
    close: () => cursor.close(),
  };
}

/** Gives the values without their checksums, and throws where one is wrong. */
function unsealed(cursor: KvCursor, codec: RowCodec): KvCursor {
  return {
    next: async (count) =>
      (await cursor.next(count)).map((entry) => {
        const [key, stored] = entry;
        return codec.isIndexKey(key) ? entry : [key, unseal(key, stored)];
      }),
    close: () => cursor.close(),
  };
}

export async function scanKeys(
  layers: ScannedLayers,
  range: KvRange,
  limit: number,
): Promise<string[]> {
  const cursor = layers.kv.textCursor(range);
  const above = newestIn(layers, range);
  return (await mergedScan({ cursor, above, limit, range }, () => "")).map(([key]) => key);
}

/** What memory has in the range, in the order of the range. */
function newestIn(layers: ScannedLayers, range: KvRange): Entry<Written>[] {
  const newest = new Newest(range);
  for (const overlay of layers.overlays) {
    for (const [key, entry] of overlay.entries) {
      // The value of an entry changes with the next commit.
      if (newest.has(key)) newest.set(key, entry.value);
    }
    addRows(newest, overlay, layers.rows);
    addIndexKeys(newest, overlay, layers.rows);
  }
  return newest.sorted();
}

class Newest implements KeyWrites {
  readonly range: KvRange;
  readonly #written: Map<string, Written> = new Map();

  constructor(range: KvRange) {
    this.range = range;
  }

  /** Whether the key lies in the range. */
  has(key: string): boolean {
    return key > this.range.after && key < this.range.before;
  }

  set(key: string, written: Written): void {
    this.#written.set(key, written);
  }

  put(key: string, value: Buffer): void {
    if (this.has(key)) this.#written.set(key, value);
  }

  del(key: string): void {
    if (this.has(key)) this.#written.set(key, undefined);
  }

  sorted(): Entry<Written>[] {
    return [...this.#written].sort((a, b) => (comesFirst(this.range, a[0], b[0]) ? -1 : 1));
  }
}

function addRows(newest: Newest, overlay: Overlay, { prefix }: RowCodec): void {
  const { after, before } = newest.range;
  if (before <= prefix || (after > prefix && !after.startsWith(prefix))) return;
  for (const [id, { row }] of overlay.rows) {
    const key = prefix + id;
    if (newest.has(key)) newest.set(key, row && { row });
  }
}

/** Only of rows that may have one in the range; most others are not worth making their keys. */
function addIndexKeys(newest: Newest, overlay: Overlay, codec: RowCodec): void {
  const mayHave = codec.rowsIn(newest.range);
  if (mayHave === undefined) return;
  for (const entry of overlay.rows.values()) {
    const { row, below } = entry;
    const mayMatter =
      (row !== undefined && mayHave(row)) || (below !== undefined && mayHave(below));
    if (mayMatter) writeIndexKeys(newest, entry, codec);
  }
}

function comesFirst({ isReverse }: KvRange, key: string, other: string): boolean {
  return isReverse === true ? key > other : key < other;
}

interface Merge<Value> {
  readonly range: KvRange;
  /** A view that was made in the same turn as the rest. */
  readonly cursor: KvCursor<Value>;
  readonly above: readonly Entry<Written>[];
  readonly limit: number;
}

async function mergedScan<Value>(
  scan: Merge<Value>,
  read: (written: NonNullable<Written>) => Value,
): Promise<Entry<Value>[]> {
  try {
    return await merge(scan, read);
  } finally {
    await scan.cursor.close();
  }
}

async function merge<Value>(
  { cursor, above, limit, range }: Merge<Value>,
  read: (written: NonNullable<Written>) => Value,
): Promise<Entry<Value>[]> {
  const found: Entry<Value>[] = [];
  let next = 0;
  const takeAbove = (): void => {
    const [key, written] = above[next] as Entry<Written>;
    next += 1;
    if (written !== undefined && found.length < limit) found.push([key, read(written)]);
  };
  while (found.length < limit) {
    const piece = await cursor.next(Math.min(limit - found.length, pieceMax));
    if (piece.length === 0) break;
    for (const entry of piece) {
      while (next < above.length && comesFirst(range, above[next]?.[0] as string, entry[0])) {
        takeAbove();
      }
      if (above[next]?.[0] === entry[0]) takeAbove();
      else found.push(entry);
    }
  }
  while (next < above.length && found.length < limit) takeAbove();
  return found.slice(0, limit);
}
