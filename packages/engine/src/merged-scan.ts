/**
 * A range over the kv with overlays on top, newest last. Everything it reads is fixed when it is
 * called: what the overlays have is noted and the kv's cursor is a view of that moment, so commits
 * and flushes that happen meanwhile are not seen in part.
 */

import { sealedEnd, unseal } from "./kv/checked-value.ts";
import type { Kv, KvCursor, KvEntry, KvRange, KvTextCursor } from "./kv/kv.ts";
import type { Overlay, RowEntry } from "./overlay.ts";
import { type KeyWrites, type Row, type RowCodec, recordOf, writeIndexKeys } from "./row-codec.ts";

const pieceMax = 1000;

type Entry<Value> = readonly [key: string, value: Value];

/** What memory has for a key: bytes, a row that is encoded when needed, or undefined for a deleted key. */
type Written = Buffer | { readonly row: Row } | undefined;

/** The layers that hold values. */
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
  const above = aboveOf(layers, range);
  return scanOnce(limit, { cursor, above, range }, (written) =>
    Buffer.isBuffer(written) ? written : recordOf(written.row, layers.rows),
  );
}

/** A row by its id; undefined for one whose bytes cannot be read. */
export type ScannedRow = readonly [id: string, row: Row | undefined];

/** A view of the rows at one moment, which is read piece by piece. */
export interface RowCursor {
  /** Fewer than `count` at the end. */
  next(count: number): Promise<ScannedRow[]>;
  close(): Promise<void>;
}

/** A view of rows; the range is of their ids. */
export function openRows(layers: ScannedLayers, range: KvRange): RowCursor {
  const { prefix } = layers.rows;
  const ids = { ...range, before: range.before === "" ? endOfAll : range.before };
  const keys = { ...ids, after: prefix + ids.after, before: prefix + ids.before };
  const cursor = rowsOf(layers.kv.cursor(keys), layers.rows);
  return new Merged({ cursor, above: rowsAbove(layers, ids), range: ids }, (row) => row);
}

/** Sorts after every id. */
const endOfAll = "~";

function rowsOf(cursor: KvCursor, codec: RowCodec): KvCursor<Row | undefined> {
  return {
    next: async (count) =>
      (await cursor.next(count)).map(([key, stored]) => {
        const end = sealedEnd(key, stored);
        const id = key.slice(codec.prefix.length);
        return [id, end === undefined ? undefined : codec.read(stored, 0, end, id, undefined)];
      }),
    close: () => cursor.close(),
  };
}

/** The rows that memory has, in the order of the range; undefined for a deleted row. */
function rowsAbove({ overlays }: ScannedLayers, range: KvRange): ScannedRow[] {
  const { after, before } = range;
  const found: ScannedRow[] = [];
  for (const [age, overlay] of overlays.entries()) {
    const newer = overlays.slice(age + 1);
    for (const [id, { row }] of overlay.rows) {
      if (id > after && id < before && !newer.some(({ rows }) => rows.has(id))) {
        found.push([id, row]);
      }
    }
  }
  return found.sort((a, b) => (comesFirst(range, a[0], b[0]) ? -1 : 1));
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
  const above = aboveOf(layers, range);
  return (await scanOnce(limit, { cursor, above, range }, () => "")).map(([key]) => key);
}

/** The first keys of each range; the ranges are in order and do not meet. */
export async function firstKeys(
  layers: ScannedLayers,
  ranges: readonly KvRange[],
  limit: number,
): Promise<string[][]> {
  const all = { after: ranges[0]?.after ?? "", before: ranges.at(-1)?.before ?? "" };
  const stored = new StoredKeys(layers.kv.textCursor(all), limit);
  const written = newestIn(writtenIn(layers, all), all, layers.rows);
  const found: string[][] = [];
  let from = 0;
  try {
    for (const range of ranges) {
      while (from < written.length && keyAt(written, from) <= range.after) from += 1;
      let to = from;
      while (to < written.length && keyAt(written, to) < range.before) to += 1;
      const parts = { cursor: stored.in(range), above: written.slice(from, to), range };
      const merged = new Merged(parts, () => "");
      found.push((await merged.next(limit)).map(([key]) => key));
    }
    return found;
  } finally {
    await stored.close();
  }
}

function keyAt(entries: readonly Entry<unknown>[], at: number): string {
  return (entries[at] as Entry<unknown>)[0];
}

/** Reads ranges one after another with one cursor, and passes over what lies between them. */
class StoredKeys {
  readonly #cursor: KvTextCursor;
  /** How many keys are read at a time: more while one piece holds several ranges. */
  #count: number;
  readonly #countMin: number;
  #piece: readonly Entry<string>[] = [];
  #at = 0;
  #rangesOfPiece = 0;

  constructor(cursor: KvTextCursor, countMin: number) {
    this.#cursor = cursor;
    this.#countMin = countMin;
    this.#count = countMin;
  }

  /** For one range, behind those before it. */
  in({ after, before }: KvRange): KvCursor<string> {
    let last = after;
    this.#rangesOfPiece += 1;
    const next = async (count: number): Promise<Entry<string>[]> => {
      await this.#goBehind(last);
      const end = Math.min(this.#at + count, this.#piece.length);
      const from = this.#at;
      while (this.#at < end && keyAt(this.#piece, this.#at) < before) this.#at += 1;
      last = this.#at > from ? keyAt(this.#piece, this.#at - 1) : last;
      return this.#piece.slice(from, this.#at);
    };
    return { next, close: () => Promise.resolve() };
  }

  close(): Promise<void> {
    return this.#cursor.close();
  }

  async #goBehind(key: string): Promise<void> {
    while (this.#at < this.#piece.length && keyAt(this.#piece, this.#at) <= key) this.#at += 1;
    if (this.#at < this.#piece.length) return;
    this.#cursor.skipTo(`${key}\0`);
    const isDense = this.#rangesOfPiece > 1;
    this.#count = isDense ? Math.min(this.#count * 2, pieceMax) : this.#countMin;
    this.#rangesOfPiece = 1;
    this.#piece = await this.#cursor.next(this.#count);
    this.#at = 0;
  }
}

/** What memory had at one moment, so that it can be sorted later, and only as far as it is needed. */
interface WrittenParts {
  readonly keys: readonly Entry<Written>[];
  /** Rows that may have index keys in the range: what they are, and were below. The newest come last. */
  readonly rows: readonly Pick<RowEntry, "row" | "below">[];
}

function writtenIn({ overlays, rows: codec }: ScannedLayers, range: KvRange): WrittenParts {
  const keys: Entry<Written>[] = [];
  const rows: Pick<RowEntry, "row" | "below">[] = [];
  for (const overlay of overlays) {
    for (const [key, { value }] of overlay.entries) if (isIn(range, key)) keys.push([key, value]);
    addRows(keys, overlay, range, codec);
    const mayHave = codec.rowsIn(range);
    if (mayHave === undefined) continue;
    // Entries change with the next commit, and rows never.
    for (const { row, below } of overlay.rows.values()) {
      if (isOneOf({ row, below }, mayHave)) rows.push({ row, below });
    }
  }
  return { keys, rows };
}

/** What memory has in the range, in the order of the range. */
function newestIn({ keys, rows }: WrittenParts, range: KvRange, codec: RowCodec): Entry<Written>[] {
  const newest = new Newest(range);
  for (const [key, written] of keys) if (newest.has(key)) newest.set(key, written);
  const mayHave = codec.rowsIn(range);
  if (mayHave !== undefined) {
    for (const each of rows) if (isOneOf(each, mayHave)) writeIndexKeys(newest, each, codec);
  }
  return newest.sorted();
}

/**
 * Behind a piece of the kv, rows of memory do not matter before the next piece is read. There may be thousands
 * of them, and computing their keys costs more than reading the piece.
 */
function aboveOf(layers: ScannedLayers, range: KvRange): Above<Exclude<Written, undefined>> {
  const written = writtenIn(layers, range);
  if (range.isReverse === true) return newestIn(written, range, layers.rows);
  return (part) => newestIn(written, part, layers.rows);
}

class Newest implements KeyWrites {
  readonly range: KvRange;
  readonly #written: Map<string, Written> = new Map();

  constructor(range: KvRange) {
    this.range = range;
  }

  /** Whether the key lies in the range. */
  has(key: string): boolean {
    return isIn(this.range, key);
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

function isIn({ after, before }: KvRange, key: string): boolean {
  return key > after && key < before;
}

function addRows(
  keys: Entry<Written>[],
  overlay: Overlay,
  range: KvRange,
  { prefix }: RowCodec,
): void {
  const { after, before } = range;
  if (before <= prefix || (after > prefix && !after.startsWith(prefix))) return;
  for (const [id, { row }] of overlay.rows) {
    const key = prefix + id;
    if (isIn(range, key)) keys.push([key, row && { row }]);
  }
}

function isOneOf(
  { row, below }: Pick<RowEntry, "row" | "below">,
  mayHave: (row: Row) => boolean,
): boolean {
  return (row !== undefined && mayHave(row)) || (below !== undefined && mayHave(below));
}

function comesFirst({ isReverse }: KvRange, key: string, other: string): boolean {
  return isReverse === true ? key > other : key < other;
}

/** What memory has, in the order of the range; undefined for deleted entries. Or what has it for a part of the range. */
type Above<Value> =
  | readonly Entry<Value | undefined>[]
  | ((part: KvRange) => readonly Entry<Value | undefined>[]);

interface MergeParts<Value, Written> {
  readonly range: KvRange;
  /** A view that was opened in the same turn as the rest. */
  readonly cursor: KvCursor<Value>;
  readonly above: Above<Written>;
}

async function scanOnce<Value, Written>(
  limit: number,
  parts: MergeParts<Value, Written>,
  read: (written: Written) => Value,
): Promise<Entry<Value>[]> {
  const merged = new Merged(parts, read);
  try {
    return await merged.next(limit);
  } finally {
    await merged.close();
  }
}

/** The entries of the kv, merged with those of memory, which win. */
class Merged<Value, Written> {
  readonly #parts: MergeParts<Value, Written>;
  readonly #read: (written: Written) => Value;
  #above: readonly Entry<Written | undefined>[] = [];
  #aboveAt = 0;
  #piece: readonly Entry<Value>[] = [];
  #pieceAt = 0;
  #isAtEnd = false;

  constructor(parts: MergeParts<Value, Written>, read: (written: Written) => Value) {
    this.#parts = parts;
    this.#read = read;
    if (typeof parts.above !== "function") this.#above = parts.above;
  }

  async next(count: number): Promise<Entry<Value>[]> {
    const found: Entry<Value>[] = [];
    while (found.length < count) {
      if (this.#pieceAt === this.#piece.length && !this.#isAtEnd) {
        await this.#readPiece(Math.min(count - found.length, pieceMax));
      }
      if (!this.#take(found)) break;
    }
    return found;
  }

  async #readPiece(count: number): Promise<void> {
    const { cursor, above, range } = this.#parts;
    const after = this.#piece.at(-1)?.[0] ?? range.after;
    this.#piece = await cursor.next(count);
    this.#pieceAt = 0;
    const last = this.#piece.at(-1)?.[0];
    this.#isAtEnd = last === undefined;
    if (typeof above !== "function") return;
    this.#above = above({ after, before: last === undefined ? range.before : `${last}\0` });
    this.#aboveAt = 0;
  }

  close(): Promise<void> {
    return this.#parts.cursor.close();
  }

  /** Takes the next entry, from memory where both have it; false at the end. */
  #take(found: Entry<Value>[]): boolean {
    const { range } = this.#parts;
    const stored = this.#piece[this.#pieceAt];
    const written = this.#above[this.#aboveAt];
    if (written === undefined || (stored && comesFirst(range, stored[0], written[0]))) {
      if (stored === undefined) return false;
      this.#pieceAt += 1;
      found.push(stored);
      return true;
    }
    const [key, value] = written;
    this.#aboveAt += 1;
    if (stored?.[0] === key) this.#pieceAt += 1;
    if (value !== undefined) found.push([key, this.#read(value)]);
    return true;
  }
}
