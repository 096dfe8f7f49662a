/**
 * The bytes of a backup of one store: a head, then entries of the kv or records of the log, then an end that
 * says how many there were. A frame that is not what was written, or a file without its end, is refused.
 *
 *   frame = length u32, kind u8, payload, CRC-32 of kind and payload u32
 */
import { crc32 } from "node:zlib";
import { FaultError } from "./fault.ts";

const kinds = { head: 1, entry: 2, record: 3, end: 4 } as const;
const frameExtraBytes = 9;
const lengthMax = 256 * 1024 * 1024;
const recordHeadBytes = 21;

export interface BackupHead {
  readonly version: 1;
  /** `full` has the kv as it was after a record; `log` has the records behind one. */
  readonly kind: "full" | "log";
  /** Of the store. */
  readonly identity: number;
  /** Which store of the data directory: `control` or `shard-<n>`. */
  readonly store: string;
  /** The record that it begins behind, or that the kv is at. */
  readonly index: number;
  readonly timeMs: number;
}

export interface BackupRecord {
  readonly index: number;
  readonly timeMs: number;
  readonly opCount: number;
  readonly type: number;
  readonly body: Buffer;
}

export interface BackupEnd {
  readonly items: number;
  /** The last record that it holds, or that the kv is at. */
  readonly index: number;
}

/** Up to where a backup of a store reaches. */
export interface BackupPosition {
  /** Of the store; undefined when it is not known. */
  readonly identity?: number | undefined;
  readonly index: number;
}

/** One of several backups that stand one after the other. */
export interface BackupSection {
  readonly head: BackupHead;
  readonly end: BackupEnd;
  /** Where it begins, and how long it is. */
  readonly start: number;
  readonly bytes: number;
}

export type BackupItem =
  | { readonly is: "head"; readonly head: BackupHead }
  | { readonly is: "entry"; readonly key: string; readonly value: Buffer }
  | { readonly is: "record"; readonly record: BackupRecord }
  | { readonly is: "end"; readonly end: BackupEnd };

export function headFrame(head: BackupHead): Buffer {
  return frame(kinds.head, Buffer.from(JSON.stringify(head)));
}

export function entryFrame(key: string, value: Buffer): Buffer {
  const payload = Buffer.allocUnsafe(2 + key.length + value.length);
  payload.writeUInt16LE(key.length, 0);
  payload.write(key, 2, "latin1");
  value.copy(payload, 2 + key.length);
  return frame(kinds.entry, payload);
}

export function recordFrame({ index, timeMs, opCount, type, body }: BackupRecord): Buffer {
  const payload = Buffer.allocUnsafe(recordHeadBytes + body.length);
  payload.writeDoubleLE(index, 0);
  payload.writeDoubleLE(timeMs, 8);
  payload.writeUInt32LE(opCount, 16);
  payload.writeUInt8(type, 20);
  body.copy(payload, recordHeadBytes);
  return frame(kinds.record, payload);
}

export function endFrame(end: BackupEnd): Buffer {
  return frame(kinds.end, Buffer.from(JSON.stringify(end)));
}

/** Throws `corrupt` at the first byte that was not written like this, and when the end is missing. */
export async function* readBackup(
  pieces: AsyncIterable<Buffer>,
  name: string,
): AsyncGenerator<BackupItem> {
  const frames = new Frames(name);
  for await (const piece of pieces) {
    yield* frames.take(piece);
    if (frames.hasEnded && frames.rest.length > 0) throw damaged(name);
  }
  if (!frames.hasEnded) throw damaged(name);
}

/**
 * Where each of several backups begins and ends that stand one after the other. Throws `corrupt` at the first
 * byte that was not written like this. Answers how many bytes stand behind the last complete one.
 */
export async function* readSections(
  pieces: AsyncIterable<Buffer>,
  name: string,
): AsyncGenerator<BackupSection, number> {
  let frames = new Frames(name);
  let start = 0;
  for await (const piece of pieces) {
    for (let rest = piece; rest.length > 0; ) {
      for (const _ of frames.take(rest)) {
        // Only where it ends counts here.
      }
      const section = frames.section(start);
      if (section === undefined) break;
      yield section;
      start += section.bytes;
      ({ rest } = frames);
      frames = new Frames(name);
    }
  }
  return frames.taken + frames.rest.length;
}

class Frames {
  readonly #name: string;
  /** What was not taken: a part of a frame, or what stands behind the end. */
  rest: Buffer = Buffer.alloc(0);
  /** Bytes of the frames so far. */
  taken = 0;
  #head: BackupHead | undefined;
  #end: BackupEnd | undefined;
  #items = 0;

  constructor(name: string) {
    this.#name = name;
  }

  get hasEnded(): boolean {
    return this.#end !== undefined;
  }

  /** What was taken, when that is a whole backup. */
  section(start: number): BackupSection | undefined {
    if (this.#end === undefined) return undefined;
    if (this.#head === undefined) throw damaged(this.#name);
    return { head: this.#head, end: this.#end, start, bytes: this.taken };
  }

  /** Up to the end, if it is in the piece. */
  *take(piece: Buffer): Generator<BackupItem> {
    this.rest = this.rest.length === 0 ? piece : Buffer.concat([this.rest, piece]);
    for (let bytes = this.#nextBytes(); bytes > 0; bytes = this.#nextBytes()) {
      const item = decode(this.rest.subarray(4, bytes), this.#name);
      this.rest = this.rest.subarray(bytes);
      this.taken += bytes;
      this.#count(item);
      yield item;
    }
  }

  /** Of the next frame; 0 when it has not been read whole, and behind the end. */
  #nextBytes(): number {
    if (this.rest.length < 4 || this.#end !== undefined) return 0;
    const length = this.rest.readUInt32LE(0);
    if (length > lengthMax) throw damaged(this.#name);
    const bytes = length + frameExtraBytes;
    return this.rest.length < bytes ? 0 : bytes;
  }

  #count(item: BackupItem): void {
    if (item.is === "entry" || item.is === "record") this.#items += 1;
    if (item.is === "head") this.#head = item.head;
    if (item.is !== "end") return;
    this.#end = item.end;
    if (item.end.items !== this.#items) throw damaged(this.#name);
  }
}

function frame(kind: number, payload: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(payload.length + frameExtraBytes);
  bytes.writeUInt32LE(payload.length, 0);
  bytes.writeUInt8(kind, 4);
  payload.copy(bytes, 5);
  bytes.writeUInt32LE(crc32(bytes.subarray(4, 5 + payload.length)), 5 + payload.length);
  return bytes;
}

/** `bytes` is kind, payload and checksum. */
function decode(bytes: Buffer, name: string): BackupItem {
  const end = bytes.length - 4;
  if (crc32(bytes.subarray(0, end)) !== bytes.readUInt32LE(end)) throw damaged(name);
  const payload = Buffer.from(bytes.subarray(1, end));
  switch (bytes[0]) {
    case kinds.head:
      return { is: "head", head: JSON.parse(payload.toString()) as BackupHead };
    case kinds.entry: {
      const keyEnd = 2 + payload.readUInt16LE(0);
      const key = payload.toString("latin1", 2, keyEnd);
      return { is: "entry", key, value: payload.subarray(keyEnd) };
    }
    case kinds.record:
      return {
        is: "record",
        record: {
          index: payload.readDoubleLE(0),
          timeMs: payload.readDoubleLE(8),
          opCount: payload.readUInt32LE(16),
          type: payload.readUInt8(20),
          body: payload.subarray(recordHeadBytes),
        },
      };
    case kinds.end:
      return { is: "end", end: JSON.parse(payload.toString()) as BackupEnd };
    default:
      throw damaged(name);
  }
}

function damaged(name: string): FaultError {
  return new FaultError("corrupt", `${name} is damaged or not complete; use another backup`);
}
