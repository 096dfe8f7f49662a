/**
 * Reads which tables are live from LevelDB's own files: CURRENT names a manifest, whose records add and remove
 * tables. Every record has a checksum, and a wrong one is damage; only the last record may be unfinished, as a
 * crash leaves it.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { FaultError } from "../fault.ts";
import { maskedCrc32c } from "./crc32c.ts";

export interface LiveTable {
  readonly number: number;
  /** The name of the file in the directory. */
  readonly name: string;
  readonly bytes: number;
  /** Internal keys: the key and eight bytes with its sequence number. */
  readonly smallest: Buffer;
  readonly largest: Buffer;
}

export interface StoreFiles {
  /** Undefined when nothing was ever stored here. */
  readonly manifest: string | undefined;
  readonly tables: readonly LiveTable[];
  /** The numbers of LevelDB's own logs, the oldest first. */
  readonly logs: readonly number[];
}

/** Reads the directory and changes nothing; throws `corrupt` when a file is damaged. */
export function readStoreFiles(directory: string): StoreFiles {
  const names = readdirSync(directory);
  const logs = logNumbers(names);
  if (!names.includes("CURRENT")) {
    const left = names.find((name) => isTable(name) || isLaterManifest(name));
    if (left === undefined) return { manifest: undefined, tables: [], logs };
    throw damaged(join(directory, "CURRENT"), `is missing though ${left} is there`);
  }
  const manifest = readCurrent(directory);
  if (!names.includes(manifest)) {
    throw damaged(join(directory, "CURRENT"), `names ${manifest}, which is missing`);
  }
  const tables: LiveTable[] = [];
  const present = new Set(names);
  for (const [number, table] of readManifest(join(directory, manifest))) {
    const name = [".ldb", ".sst"].map((end) => fileName(number) + end).find((n) => present.has(n));
    if (name === undefined) throw damaged(join(directory, `${fileName(number)}.ldb`), "is missing");
    tables.push({ ...table, name });
  }
  return { manifest, tables, logs };
}

export function logNumbers(names: readonly string[]): number[] {
  return names
    .filter((name) => /^\d+\.log$/.test(name))
    .map((name) => Number.parseInt(name, 10))
    .sort((a, b) => a - b);
}

export function logName(number: number): string {
  return `${fileName(number)}.log`;
}

export function damaged(path: string, what: string): FaultError {
  return new FaultError(
    "corrupt",
    `the key-value store is damaged: ${path} ${what}. Nothing was changed. ` +
      "Restore the whole data directory (kv and log together) from one backup.",
  );
}

function fileName(number: number): string {
  return String(number).padStart(6, "0");
}

function isTable(name: string): boolean {
  return /^\d+\.(ldb|sst)$/.test(name);
}

/** A new store has its first manifest before it has CURRENT. */
function isLaterManifest(name: string): boolean {
  return name.startsWith("MANIFEST-") && name !== "MANIFEST-000001";
}

function readCurrent(directory: string): string {
  const path = join(directory, "CURRENT");
  const name = /^(MANIFEST-\d+)\n$/.exec(readFileSync(path, "latin1"))?.[1];
  if (name === undefined) throw damaged(path, "does not name a manifest");
  return name;
}

function readManifest(path: string): Map<number, Omit<LiveTable, "name">> {
  const tables = new Map<number, Omit<LiveTable, "name">>();
  let count = 0;
  for (const record of recordsOf(path)) {
    count += 1;
    try {
      applyEdit(new EditReader(record), tables);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      throw damaged(path, `has a record ${count} that cannot be read`);
    }
  }
  if (count === 0) throw damaged(path, "holds no record");
  return tables;
}

/** Throws `corrupt` when a record is damaged, other than an unfinished last one. */
export function assertWhole(path: string): void {
  for (const _ of recordsOf(path));
}

const blockBytes = 32 * 1024;
const headBytes = 7;
const kinds = { full: 1, first: 2, middle: 3, last: 4 } as const;

/** The records of a file in LevelDB's log format. */
function* recordsOf(path: string): Generator<Buffer, void, void> {
  let parts: Buffer[] = [];
  for (const { kind, bytes, offset } of fragmentsOf(path)) {
    const isStart = kind === kinds.full || kind === kinds.first;
    if (isStart !== (parts.length === 0)) {
      throw damaged(path, `has a record without its other parts at offset ${offset}`);
    }
    parts.push(bytes);
    if (kind !== kinds.full && kind !== kinds.last) continue;
    yield Buffer.concat(parts);
    parts = [];
  }
}

interface Fragment {
  readonly kind: number;
  readonly bytes: Buffer;
  readonly offset: number;
}

/** Parts of records, none of which crosses from one block to the next. */
function* fragmentsOf(path: string): Generator<Fragment, void, void> {
  const file = readFileSync(path);
  let at = 0;
  while (file.length - at >= headBytes) {
    const left = blockBytes - (at % blockBytes);
    if (left < headBytes) {
      at += left;
      continue;
    }
    const length = file.readUInt16LE(at + 4);
    const kind = file.readUInt8(at + 6);
    const end = at + headBytes + length;
    const broken = (what: string): FaultError => damaged(path, `${what} at offset ${at}`);
    // The process ended before the last record was finished, so nothing relies on it.
    if (isEmpty(file, at) || (end > file.length && headBytes + length <= left)) return;
    if (headBytes + length > left) throw broken("has a record of a wrong length");
    if (maskedCrc32c(file, at + 6, end) !== file.readUInt32LE(at)) {
      throw broken("has a record with a wrong checksum");
    }
    yield { kind, bytes: file.subarray(at + headBytes, end), offset: at };
    at = end;
  }
}

/** A crash may leave zeros behind the end, and nothing else. */
function isEmpty(file: Buffer, at: number): boolean {
  return file[at + 6] === 0 && file.subarray(at).every((byte) => byte === 0);
}

const tags = {
  comparator: 1,
  logNumber: 2,
  nextFileNumber: 3,
  lastSequence: 4,
  compactPointer: 5,
  deletedFile: 6,
  newFile: 7,
  prevLogNumber: 9,
} as const;

function applyEdit(edit: EditReader, tables: Map<number, Omit<LiveTable, "name">>): void {
  const added: Omit<LiveTable, "name">[] = [];
  while (!edit.isAtEnd) {
    const tag = edit.number();
    switch (tag) {
      case tags.comparator:
        edit.bytes();
        break;
      case tags.logNumber:
      case tags.nextFileNumber:
      case tags.lastSequence:
      case tags.prevLogNumber:
        edit.number();
        break;
      case tags.compactPointer:
        edit.number();
        edit.bytes();
        break;
      case tags.deletedFile:
        edit.number();
        tables.delete(edit.number());
        break;
      case tags.newFile: {
        edit.number();
        const [number, bytes] = [edit.number(), edit.number()];
        added.push({ number, bytes, smallest: edit.bytes(), largest: edit.bytes() });
        break;
      }
      default:
        throw new RangeError(`tag ${tag}`);
    }
  }
  // A table that moves to another level is deleted and added in one record.
  for (const table of added) tables.set(table.number, table);
}

/** Numbers and byte strings; throws RangeError behind the end. */
export class EditReader {
  readonly #buffer: Buffer;
  #at = 0;

  constructor(buffer: Buffer) {
    this.#buffer = buffer;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#buffer.length;
  }

  number(): number {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#buffer.readUInt8(this.#at);
      this.#at += 1;
      value += (byte & 0x7f) * factor;
      if (value > Number.MAX_SAFE_INTEGER) throw new RangeError("number");
      if (byte < 0x80) return value;
    }
  }

  get restIsZero(): boolean {
    return this.#buffer.subarray(this.#at).every((byte) => byte === 0);
  }

  /** A length, followed by that many bytes. */
  bytes(): Buffer {
    return this.take(this.number());
  }

  take(length: number): Buffer {
    const start = this.#at;
    this.#at += length;
    if (this.#at > this.#buffer.length) throw new RangeError("length");
    return this.#buffer.subarray(start, this.#at);
  }
}
