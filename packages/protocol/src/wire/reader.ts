/**
 * Reads protobuf fields from untrusted bytes. Every length is compared with what is left of the enclosing
 * message, numbers and texts have to be well formed, and the number of objects in one message is limited;
 * anything else is a WireError. Unknown fields, and known ones with another wire type, are skipped.
 *
 * Bytes are views of the input: copy what outlives it.
 */
import type { WireBytes, WireUint64 } from "./writer.ts";

export type WireRead<T> = (reader: WireReader) => T;

/** Deeper groups are only ever sent to exhaust a parser; no field of ours is a group. */
const groupDepthMax = 64;
/** Two bytes can make an object of 200 bytes; this limits the memory that a message of 4 MiB can take. */
const elementsMax = 65_536;
/**
 * Texts up to this many bytes are read in a loop, which is faster than leaving JavaScript. Longer ones
 * would become chains of pieces that have to be joined when they are first used.
 */
const shortTextBytes = 12;
const two32 = 2 ** 32;
const replacement = "\ufffd";

/**
 * `private` and not `#`, here and in the writer: the check that comes with every `#` took a fifth of
 * the speed.
 */
export class WireReader {
  private readonly source: Buffer;
  private position = 0;
  private end: number;
  private elements = 0;
  /** The halves of the number that was read last, each without sign. */
  private low = 0;
  private high = 0;

  constructor(bytes: Uint8Array) {
    this.source = Buffer.isBuffer(bytes)
      ? bytes
      : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.end = bytes.length;
  }

  /** Whether the message that is being read has another field. */
  more(): boolean {
    return this.position < this.end;
  }

  tag(): number {
    const first = this.source[this.position];
    if (this.position < this.end && first !== undefined && first < 0x80 && first > 7) {
      this.position += 1;
      return first;
    }
    this.varint();
    if (this.high !== 0 || this.low < 8) throw new WireError("a field has an impossible number");
    return this.low;
  }

  /** A message inside this one. */
  message<T>(read: WireRead<T>): T {
    const outer = this.enter();
    const value = read(this);
    this.end = outer;
    return value;
  }

  private enter(): number {
    const length = this.lengthPrefix();
    const outer = this.end;
    this.end = this.position + length;
    return outer;
  }

  /** To be called for every element of a list. */
  countElement(): void {
    this.elements += 1;
    if (this.elements > elementsMax) {
      throw new WireError(`a message has more than ${elementsMax} elements`);
    }
  }

  string(): string {
    const length = this.lengthPrefix();
    const start = this.position;
    this.position += length;
    return textBetween(this.source, start, this.position);
  }

  bytes(): Buffer {
    const length = this.lengthPrefix();
    const start = this.position;
    this.position += length;
    return this.source.subarray(start, this.position);
  }

  bool(): boolean {
    this.varint();
    return this.low !== 0 || this.high !== 0;
  }

  int32(): number {
    this.varint();
    return this.low | 0;
  }

  uint64(): WireUint64 {
    this.varint();
    if (this.high < 0x200000) return this.high * two32 + this.low;
    return (BigInt(this.high) << 32n) | BigInt(this.low);
  }

  /** A google.protobuf.Timestamp in whole milliseconds, rounded down. */
  timestamp(): number {
    let seconds = 0;
    let nanos = 0;
    const outer = this.enter();
    while (this.more()) {
      const tag = this.tag();
      if (tag === 8) {
        this.varint();
        seconds = (this.high | 0) * two32 + this.low;
      } else if (tag === 16) {
        nanos = this.int32();
      } else {
        this.skip(tag);
      }
    }
    this.end = outer;
    return seconds * 1000 + Math.floor(nanos / 1_000_000);
  }

  /** Skips a field that the message does not have. */
  skip(tag: number): void {
    if ((tag & 7) === 3) this.skipGroup(tag >>> 3);
    else this.skipValue(tag & 7);
  }

  private skipValue(wireType: number): void {
    switch (wireType) {
      case 0:
        this.varint();
        return;
      case 1:
        this.advance(8);
        return;
      case 2:
        this.advance(this.lengthPrefix());
        return;
      case 5:
        this.advance(4);
        return;
      default:
        throw new WireError(`a field has wire type ${wireType}`);
    }
  }

  /** A group ends with the number it began with; groups may stand in groups. */
  private skipGroup(field: number): void {
    const open = [field];
    while (open.length > 0) {
      const tag = this.tag();
      const wireType = tag & 7;
      if (wireType === 3) {
        if (open.length >= groupDepthMax) throw new WireError("groups are nested too deep");
        open.push(tag >>> 3);
      } else if (wireType === 4) {
        if (open.pop() !== tag >>> 3) throw new WireError("a group ends with another number");
      } else {
        this.skipValue(wireType);
      }
    }
  }

  private advance(bytes: number): void {
    if (bytes > this.end - this.position) throw cutOff();
    this.position += bytes;
  }

  private lengthPrefix(): number {
    this.varint();
    if (this.high !== 0 || this.low > this.end - this.position) throw cutOff();
    return this.low;
  }

  private varint(): void {
    if (this.position >= this.end) throw cutOff();
    const first = this.source[this.position] ?? 0;
    if (first < 0x80) {
      this.position += 1;
      this.low = first;
      this.high = 0;
    } else {
      this.longVarint();
    }
  }

  private longVarint(): void {
    let low = 0;
    let high = 0;
    for (let index = 0; index < 10; index += 1) {
      if (this.position >= this.end) throw cutOff();
      const byte = this.source[this.position] ?? 0;
      this.position += 1;
      const bits = byte & 0x7f;
      if (index < 4) low |= bits << (7 * index);
      else if (index === 4) {
        low |= bits << 28;
        high = bits >>> 4;
      } else high |= bits << (7 * index - 32);
      if (byte < 0x80) {
        if (index === 9 && byte > 1) break;
        this.low = low >>> 0;
        this.high = high >>> 0;
        return;
      }
    }
    throw new WireError("a number has more than 64 bits");
  }
}

export function decodeMessage<T>(read: WireRead<T>, bytes: Uint8Array): T {
  return read(new WireReader(bytes));
}

/** The text of a bytes field. Bytes that are not UTF-8 are a WireError. */
export function textOf(bytes: WireBytes): string {
  if (typeof bytes === "string") return bytes;
  const buffer = Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return textBetween(buffer, 0, buffer.length);
}

function textBetween(bytes: Buffer, start: number, end: number): string {
  if (end - start > shortTextBytes) return longText(bytes, start, end);
  let text = "";
  for (let index = start; index < end; index += 1) {
    const byte = bytes[index] ?? 0;
    if (byte > 0x7f) return longText(bytes, start, end);
    text += String.fromCharCode(byte);
  }
  return text;
}

function longText(bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString("utf8", start, end);
  // Damage becomes a replacement character, which may also have been sent as such: check again.
  if (text.includes(replacement) && !isUtf8(bytes.subarray(start, end))) {
    throw new WireError("a text is not UTF-8");
  }
  return text;
}

function isUtf8(bytes: Buffer): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return true;
  } catch {
    // The decoder throws exactly when the bytes are not UTF-8.
    return false;
  }
}

function cutOff(): WireError {
  return new WireError("the message is cut off");
}

/** The bytes are not a message of the expected kind: cut off, damaged, or built to do harm. */
export class WireError extends Error {
  override readonly name: string = "WireError";
}
