/**
 * Rows for tests: things on shelves. Written with a version, and with a checksum over bytes and id; a
 * difference names the edition that it applies to. Whatever is damaged or meant for another row is told
 * from what can be read.
 */
import { crc32 } from "node:zlib";
import type { Derive } from "../src/flusher.ts";
import type { Row, RowChange, RowCodec } from "../src/row-codec.ts";

export interface Thing extends Row {
  readonly id: string;
  /** One higher with every change. */
  readonly edition: number;
  /** None, one, or several with a plus between them. */
  readonly shelf: string;
  readonly note: string;
}

export function thing(id: string, shelf: string, note = ""): Thing {
  return { id, edition: 1, shelf, note };
}

/** The same thing, later. */
export function changed(before: Thing, to: Partial<Pick<Thing, "shelf" | "note">>): Thing {
  return { ...before, edition: before.edition + 1, ...to };
}

export function added(after: Thing): RowChange {
  return { before: undefined, after };
}

export function moved(before: Thing, shelf: string): RowChange & { readonly after: Thing } {
  return { before, after: changed(before, { shelf }) };
}

export function removed(before: Thing): RowChange {
  return { before, after: undefined };
}

const version = 1;
const headBytes = 6;
const sumBytes = 4;
const has = { shelf: 1, note: 2, everything: 4 } as const;

export const things: RowCodec = {
  prefix: "t/",
  idOf: (row) => (row as Thing).id,
  bytesMaxOf: (after) => {
    const { shelf, note } = after as Thing;
    return headBytes + sumBytes + 4 + (shelf.length + note.length) * 3;
  },
  write: (buffer, start, after, before) => writeThing(buffer, start, [after, before] as Pair),
  read: (buffer, start, end, id, before) =>
    readThing(buffer.subarray(start, end), id, before as Thing | undefined),
  rowsIn: ({ after, before }) => {
    if (before <= "shelf/" || after >= "shelf0") return undefined;
    return (row) => (row as Thing).shelf !== "";
  },
  keysOf: (row) => {
    const { id, shelf } = row as Thing;
    return shelf === "" ? [] : shelf.split("+").map((each) => `shelf/${each}/${id}`);
  },
  isIndexKey: (key) => key.startsWith("shelf/"),
  valueOf: (row) => Buffer.from((row as Thing).id),
};

type Pair = readonly [after: Thing, before: Thing | undefined];

function writeThing(buffer: Buffer, start: number, [after, before]: Pair): number {
  const flags =
    before === undefined
      ? has.everything | has.shelf | has.note
      : Number(before.shelf !== after.shelf) * has.shelf +
        Number(before.note !== after.note) * has.note;
  let at = buffer.writeUInt8(version, start);
  at = buffer.writeUInt32LE(after.edition, at);
  at = buffer.writeUInt8(flags, at);
  if (flags & has.shelf) at = writeText(buffer, at, after.shelf);
  if (flags & has.note) at = writeText(buffer, at, after.note);
  return buffer.writeUInt32LE(sumOf(buffer.subarray(start, at), after.id), at);
}

function writeText(buffer: Buffer, at: number, text: string): number {
  const bytes = buffer.write(text, at + 2);
  buffer.writeUInt16LE(bytes, at);
  return at + 2 + bytes;
}

function sumOf(bytes: Buffer, id: string): number {
  return crc32(bytes, crc32(id));
}

function readThing(bytes: Buffer, id: string, before: Thing | undefined): Thing | undefined {
  const end = bytes.length - sumBytes;
  if (end < headBytes || bytes[0] !== version) return undefined;
  if (bytes.readUInt32LE(end) !== sumOf(bytes.subarray(0, end), id)) return undefined;
  const edition = bytes.readUInt32LE(1);
  const flags = bytes.readUInt8(5);
  const isWhole = (flags & has.everything) !== 0;
  if (isWhole !== (before === undefined)) return undefined;
  if (before !== undefined && before.edition + 1 !== edition) return undefined;
  let { shelf, note } = before ?? { shelf: "", note: "" };
  let at = headBytes;
  const text = (): string => {
    const from = at + 2;
    at = from + bytes.readUInt16LE(at);
    return bytes.toString("utf8", from, at);
  };
  if (flags & has.shelf) shelf = text();
  if (flags & has.note) note = text();
  return { id, edition, shelf, note };
}

/** How many index keys there are, from the net effect of flushes alone. */
export const countIndexKeys: Derive = ({ rows }, get) => {
  let count = Number(get("count")?.toString() ?? 0);
  for (const { row, below } of rows) {
    count += row === undefined ? 0 : things.keysOf(row).length;
    count -= below === undefined ? 0 : things.keysOf(below).length;
  }
  return [{ key: "count", value: Buffer.from(String(count)) }];
};

/** How many other keys there are, likewise. */
export const countKeys: Derive = ({ entries }, get) => {
  let count = Number(get("count")?.toString() ?? 0);
  for (const [, { value, born }] of entries) count += value === undefined ? -1 : Number(born);
  return [{ key: "count", value: Buffer.from(String(count)) }];
};
