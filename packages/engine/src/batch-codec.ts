/**
 * The bytes of a group of batches, as the log carries them. Self-describing and versioned:
 *
 *   body  = version u8, op*
 *   op    = put | create | delete: kind u8, key length u16, [value length u32,] key, [value]
 *         | row kinds:             kind u8, id length u8, [length u32,] id, [what the codec wrote]
 *
 * Kinds: `put` replaces whatever is there, `create` says that the key did not exist before (so that
 * a later delete of it in the same window leaves nothing behind), `delete` removes it. `rowCreated` has
 * a whole row, `rowChanged` how it differs from the row before, `rowDeleted` removes it.
 * Keys and ids are ASCII. A group is applied whole or not at all, so batches inside it need no marks.
 */
import { check, FaultError } from "./fault.ts";
import { alignBytes, headerBytes } from "./log/log.ts";
import type { RowChange, RowCodec } from "./row-codec.ts";

export const opKinds = {
  put: 1,
  create: 2,
  delete: 3,
  rowCreated: 4,
  rowChanged: 5,
  rowDeleted: 6,
} as const;
export type OpKind = (typeof opKinds)[keyof typeof opKinds];

const bodyVersion = 3;
const keyBytesMax = 0xffff;
const idBytesMax = 0xff;

/** A write of one key that holds no row. */
export interface Op {
  readonly kind: typeof opKinds.put | typeof opKinds.create | typeof opKinds.delete;
  readonly key: string;
  /** Text is stored as UTF-8. Not used by `delete`. */
  readonly value: string | Uint8Array;
}

export function put(key: string, value: string | Uint8Array): Op {
  return { kind: opKinds.put, key, value };
}

export function create(key: string, value: string | Uint8Array): Op {
  return { kind: opKinds.create, key, value };
}

export function remove(key: string): Op {
  return { kind: opKinds.delete, key, value: "" };
}

/**
 * Memory that frames are written into, one behind the other, so that small groups do not each hold
 * a large buffer for as long as the overlay refers to their values.
 */
export class Slab {
  #buffer: Buffer = Buffer.alloc(0);
  #offset = 0;

  /** Free memory for `bytes`, behind what is taken; continues in new memory when it does not fit. */
  free(bytes: number): { readonly buffer: Buffer; readonly start: number } {
    if (this.#offset + bytes > this.#buffer.length) {
      this.#buffer = Buffer.allocUnsafeSlow(Math.max(slabBytes, bytes * 2));
      this.#offset = 0;
    }
    return { buffer: this.#buffer, start: this.#offset };
  }

  /** Marks everything before `offset` as taken. */
  take(offset: number): void {
    this.#offset = offset;
  }
}

const slabBytes = 1024 * 1024;
const firstFrameBytes = 4096;

/** Where a value lies. The bytes stay as they are; a view of them is only made when it is needed. */
export interface Span {
  readonly buffer: Buffer;
  readonly start: number;
  readonly end: number;
}

/** What Node's buffers have and their types leave out: writing without choosing the encoding first. */
interface TextBuffer extends Buffer {
  latin1Write(text: string, offset: number, length: number): number;
  utf8Write(text: string, offset: number, length: number): number;
}

/**
 * Collects ops straight into the frame that will be appended; values lie in it. A slab serves one
 * writer at a time: the next one starts after `finish`.
 */
export class GroupWriter {
  /** The value of the op that was added last; overwritten by the next one. */
  readonly last: { buffer: Buffer; start: number; end: number };
  readonly #slab: Slab;
  #buffer: TextBuffer;
  #start: number;
  #offset: number;
  #opCount = 0;
  #frame: Buffer | undefined;

  constructor(slab: Slab) {
    this.#slab = slab;
    const { buffer, start } = slab.free(firstFrameBytes);
    this.#buffer = buffer as TextBuffer;
    this.#start = start;
    this.#offset = start + headerBytes + 1;
    this.last = { buffer, start, end: start };
    buffer[start + headerBytes] = bodyVersion;
  }

  get opCount(): number {
    return this.#opCount;
  }

  get bodyBytes(): number {
    return this.#offset - this.#start - headerBytes;
  }

  add(op: Op): void {
    const { kind, key, value } = op;
    check(key.length <= keyBytesMax, "a key fits its length field");
    const textual = typeof value === "string";
    // Three bytes are the most that UTF-8 needs for one UTF-16 unit.
    this.#reserve(7 + key.length + (textual ? value.length * 3 : value.length));
    const buffer = this.#buffer;
    let at = this.#offset;
    buffer[at] = kind;
    buffer[at + 1] = key.length >>> 8;
    buffer[at + 2] = key.length;
    this.#opCount += 1;
    if (kind === opKinds.delete) {
      buffer.latin1Write(key, at + 3, key.length);
      this.#offset = at + 3 + key.length;
      return;
    }
    const lengthAt = at + 3;
    at += 7;
    buffer.latin1Write(key, at, key.length);
    at += key.length;
    const bytes = textual
      ? buffer.utf8Write(value, at, value.length * 3)
      : copyInto(buffer, value, at);
    writeLength(buffer, bytes, lengthAt);
    this.#offset = at + bytes;
    this.last.buffer = buffer;
    this.last.start = at;
    this.last.end = this.#offset;
  }

  /** The codec writes the row into the frame. */
  addRow(id: string, { before, after }: RowChange, codec: RowCodec): void {
    const idBytes = id.length;
    check(idBytes <= idBytesMax, "an id fits its length field");
    check(before !== undefined || after !== undefined, "a change has a row before or after it");
    const bytesMax = after === undefined ? 0 : codec.bytesMaxOf(after, before);
    this.#reserve(6 + idBytes + bytesMax);
    const buffer = this.#buffer;
    const at = this.#offset;
    buffer[at + 1] = idBytes;
    if (after === undefined) {
      buffer[at] = opKinds.rowDeleted;
      buffer.latin1Write(id, at + 2, idBytes);
      this.#offset = at + 2 + idBytes;
      this.#opCount += 1;
      return;
    }
    buffer[at] = before === undefined ? opKinds.rowCreated : opKinds.rowChanged;
    buffer.latin1Write(id, at + 6, idBytes);
    const start = at + 6 + idBytes;
    const end = codec.write(buffer, start, after, before);
    check(end >= start && end <= start + bytesMax, "a row takes no more bytes than its codec says");
    writeLength(buffer, end - start, at + 2);
    this.#offset = end;
    this.#opCount += 1;
  }

  /** The whole frame: room for the header, the body, and zeros up to the alignment. */
  finish(): Buffer {
    if (this.#frame !== undefined) return this.#frame;
    const bytes = Math.ceil((this.#offset - this.#start) / alignBytes) * alignBytes;
    const end = this.#start + bytes;
    this.#frame = this.#buffer.fill(0, this.#offset, end).subarray(this.#start, end);
    this.#slab.take(end);
    return this.#frame;
  }

  #reserve(bytes: number): void {
    if (this.#offset + bytes + alignBytes <= this.#buffer.length) return;
    const used = this.#offset - this.#start;
    const { buffer, start } = this.#slab.free(used + bytes + alignBytes);
    this.#buffer.copy(buffer, start, this.#start, this.#offset);
    this.#buffer = buffer as TextBuffer;
    this.#start = start;
    this.#offset = start + used;
  }
}

export interface DecodedOp {
  readonly kind: OpKind;
  /** The id, where it is about a row. */
  readonly key: string;
  /** Empty where something is deleted. */
  readonly value: Span;
}

/** Reads the ops of a body; values lie in it. */
export function* decodeBody(body: Buffer): Generator<DecodedOp> {
  if (body[0] !== bodyVersion) {
    const text = `log record body has version ${body[0]}, this server reads ${bodyVersion}`;
    throw new FaultError("format", text);
  }
  let at = 1;
  while (at < body.length) {
    const op = opAt(body, at);
    yield op;
    at = op.value.end;
  }
}

function opAt(body: Buffer, at: number): DecodedOp {
  const kind = body[at] as OpKind;
  if (kind < opKinds.put || kind > opKinds.rowDeleted) throw damaged(at);
  const isRow = kind >= opKinds.rowCreated;
  const isDelete = kind === opKinds.delete || kind === opKinds.rowDeleted;
  const lengthAt = isRow ? at + 2 : at + 3;
  const keyAt = isDelete ? lengthAt : lengthAt + 4;
  if (keyAt > body.length) throw damaged(at);
  const start = keyAt + (isRow ? body.readUInt8(at + 1) : body.readUInt16BE(at + 1));
  const end = isDelete ? start : start + body.readUInt32BE(lengthAt);
  if (end > body.length) throw damaged(at);
  const key = body.toString("latin1", keyAt, start);
  return { kind, key, value: { buffer: body, start, end } };
}

function damaged(at: number): FaultError {
  return new FaultError("corrupt", `log record body is damaged at byte ${at}`);
}

function writeLength(buffer: Buffer, bytes: number, at: number): void {
  buffer[at] = bytes >>> 24;
  buffer[at + 1] = bytes >>> 16;
  buffer[at + 2] = bytes >>> 8;
  buffer[at + 3] = bytes;
}

function copyInto(target: Buffer, value: Uint8Array, at: number): number {
  target.set(value, at);
  return value.length;
}
