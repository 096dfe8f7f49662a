/**
 * One file of the log, read front to back.
 *
 * `inspectSegment` changes nothing and judges every record by itself: whether the bytes at a place
 * are a whole record. The caller, which knows the records before, decides what a record means for the log: the
 * next record, one from an earlier use of the file, or one that comes too early.
 */
import type { ReadableDisk, ReadableFile } from "../disk/disk.ts";
import { alignBytes, headerBytes } from "./log.ts";
import {
  checksumMatches,
  decodeHeader,
  frameBytes,
  hasMagic,
  isEmptyHeader,
  type RecordHeader,
  readBodyBytes,
  recordVersion,
} from "./record.ts";

/**
 * `empty`: zeros, as in a file that was never used up to here. `magic`: something else than a
 * record. `length`: it would reach behind the end of the file. `checksum`: damaged or half written.
 * `version`: whole, but written by a newer version.
 */
export type RecordFlaw = "empty" | "magic" | "length" | "checksum" | "version";

export interface FlawedEntry {
  readonly ok: false;
  readonly offset: number;
  readonly reason: RecordFlaw;
  /** Present when the checksum matched, which it does only for `version`. */
  readonly header: RecordHeader | undefined;
  /** The index in what looks like a header, which may itself be damaged. */
  readonly claimedIndex: number | undefined;
}

export interface SoundEntry {
  readonly ok: true;
  readonly offset: number;
  readonly header: RecordHeader;
  /** The header as stored, to compute the chain. Like `body`, it is never overwritten. */
  readonly headerImage: Buffer;
  readonly body: Buffer;
}

export type SegmentEntry = SoundEntry | FlawedEntry;

const readBytes = 1024 * 1024;
const namePattern = /^(\d{20})\.log$/;

export function segmentName(firstIndex: number): string {
  return `${String(firstIndex).padStart(20, "0")}.log`;
}

/** The index of the first record of the segment, or undefined when it is not a segment's name. */
export function segmentFirstIndex(name: string): number | undefined {
  const digits = namePattern.exec(name)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/**
 * The records of a file in order, up to `end` or the end of the file. Where there is none, one
 * entry says why, and the walk goes on with the next record behind it, if there is any.
 */
export async function* inspectSegment(
  disk: ReadableDisk,
  name: string,
  end: number = Number.MAX_SAFE_INTEGER,
): AsyncGenerator<SegmentEntry, void, void> {
  const file = await disk.open(name);
  try {
    yield* walk(new Window(file, Math.min(end, await file.size())));
  } finally {
    await file.close();
  }
}

async function* walk(window: Window): AsyncGenerator<SegmentEntry, void, void> {
  let damaged = false;
  let offset = 0;
  while (await window.cover(offset, headerBytes)) {
    if (damaged) {
      const next = window.seekMagic(offset);
      if (next !== offset) {
        offset = next;
        continue;
      }
    }
    const entry = await examine(window, offset);
    if (entry.header !== undefined) {
      damaged = false;
      yield entry;
      offset += frameBytes(entry.header.bodyBytes);
    } else {
      if (!damaged) yield entry;
      damaged = true;
      offset += alignBytes;
    }
  }
}

async function examine(window: Window, offset: number): Promise<SegmentEntry> {
  let claimedIndex: number | undefined;
  const flaw = (reason: RecordFlaw, header?: RecordHeader): FlawedEntry => {
    return { ok: false, offset, reason, header, claimedIndex };
  };
  const start = window.at(offset);
  if (!hasMagic(window.buffer, start)) {
    return flaw(isEmptyHeader(window.buffer, start) ? "empty" : "magic");
  }
  claimedIndex = decodeHeader(window.buffer, start).index;
  const bytes = headerBytes + readBodyBytes(window.buffer, start);
  if (!(await window.cover(offset, bytes))) return flaw("length");
  // Covering the body may have moved the window.
  const moved = window.at(offset);
  const { buffer } = window;
  if (!checksumMatches(buffer, moved)) return flaw("checksum");
  window.giveAway();
  const header = decodeHeader(buffer, moved);
  if (header.version !== recordVersion) return flaw("version", header);
  return {
    ok: true,
    offset,
    header,
    headerImage: buffer.subarray(moved, moved + headerBytes),
    body: buffer.subarray(moved + headerBytes, moved + bytes),
  };
}

/**
 * The part of the file that is in memory; moved forward in large reads. Most of a new segment is empty: the next
 * read reuses a buffer in which no record was handed out, which saves the garbage collector a file's worth of
 * buffers at every start.
 */
class Window {
  readonly #file: ReadableFile;
  readonly #size: number;
  #start = 0;
  #isGivenAway = false;
  buffer: Buffer = Buffer.alloc(0);

  constructor(file: ReadableFile, size: number) {
    this.#file = file;
    this.#size = size;
  }

  /** False when the file ends before `offset + length`. */
  async cover(offset: number, length: number): Promise<boolean> {
    if (offset + length <= this.#start + this.buffer.length) return true;
    if (offset + length > this.#size) return false;
    const wanted = Math.min(Math.max(length, readBytes), this.#size - offset);
    const isFree = !this.#isGivenAway && this.buffer.length >= wanted;
    this.buffer = await this.#file.read(offset, wanted, isFree ? this.buffer : undefined);
    this.#isGivenAway = false;
    this.#start = offset;
    return this.buffer.length >= length;
  }

  /** Parts of `buffer` may be used when the window has moved on. */
  giveAway(): void {
    this.#isGivenAway = true;
  }

  /** Where `offset` lies in `buffer`. */
  at(offset: number): number {
    return offset - this.#start;
  }

  /** The next place from `offset` on that may hold a record, or the first one behind the window. */
  seekMagic(offset: number): number {
    let start = this.at(offset);
    while (start + headerBytes <= this.buffer.length && !hasMagic(this.buffer, start)) {
      start += alignBytes;
    }
    return this.#start + start;
  }
}
