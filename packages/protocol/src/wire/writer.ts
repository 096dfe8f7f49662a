/**
 * Writes protobuf fields into one buffer that grows and is used again. What it writes is canonical:
 * fields in the order of the calls, default values left out, the shortest form of every number.
 *
 * The generated functions decide which method a field needs and pass its tag, which is the field
 * number and the wire type as they stand on the wire.
 */

/** A text stands for its UTF-8 bytes. A decoded value is bytes, or an empty text for no bytes. */
export type WireBytes = Uint8Array | string;

/** A plain number up to 2^53 - 1, a bigint above, so that every value is exact. */
export type WireUint64 = number | bigint;

export type WireWrite<T> = (message: T, writer: WireWriter) => void;

const capacityDefault = 1024;
/** A scratch buffer that grew beyond this for one huge message is dropped after it. */
const scratchBytesMax = 256 * 1024;
/**
 * Texts of so few units of UTF-16 are written in a loop, which is faster than leaving JavaScript.
 * They have at most 127 bytes, so their length takes one.
 */
const shortTextMax = 24;
/** From this size on, finding the exact length first is cheaper than reserving three times as much. */
const longTextMin = 1024;
const two32 = 2 ** 32;

export class WireWriter {
  private buffer: Buffer;
  private used = 0;

  constructor(capacity: number = capacityDefault) {
    this.buffer = Buffer.allocUnsafeSlow(capacity);
  }

  /** Bytes written since the last reset. */
  get length(): number {
    return this.used;
  }

  get capacity(): number {
    return this.buffer.length;
  }

  /** A view of what was written; overwritten after the next reset. */
  view(): Buffer {
    return this.buffer.subarray(0, this.used);
  }

  reset(): void {
    this.used = 0;
  }

  /** Drops what was written from this offset on. */
  truncate(length: number): void {
    this.used = Math.min(length, this.used);
  }

  /** Leaves room for the caller to fill by `patch`, and returns its offset. */
  reserve(bytes: number): number {
    this.ensure(bytes);
    const at = this.used;
    this.used += bytes;
    return at;
  }

  /** Fills five reserved bytes with a flag and a big-endian length, the prefix of a gRPC message. */
  patchPrefix(at: number, flag: number, length: number): void {
    this.buffer[at] = flag;
    this.buffer.writeUInt32BE(length, at + 1);
  }

  append(bytes: Uint8Array): void {
    this.ensure(bytes.length);
    this.buffer.set(bytes, this.used);
    this.used += bytes.length;
  }

  stringField(tag: number, value: string): void {
    if (value !== "") this.stringMember(tag, value);
  }

  /** Written also when it is empty: an element of a list, or the member of a oneof. */
  stringMember(tag: number, value: string): void {
    this.tag(tag);
    this.text(value);
  }

  bytesField(tag: number, value: WireBytes): void {
    if (value.length !== 0) this.bytesMember(tag, value);
  }

  bytesMember(tag: number, value: WireBytes): void {
    this.tag(tag);
    if (typeof value === "string") {
      this.text(value);
    } else {
      this.varint(value.length);
      this.append(value);
    }
  }

  boolField(tag: number, value: boolean): void {
    if (!value) return;
    this.tag(tag);
    this.varint(1);
  }

  int32Field(tag: number, value: number): void {
    if (value !== 0) this.int32(tag, value);
  }

  int32sField(tag: number, values: readonly number[]): void {
    if (values.length === 0) return;
    const at = this.begin(tag, 1);
    for (const value of values) this.signed(value);
    this.end(at, 1);
  }

  /** Written also when it is zero. */
  varintMember(tag: number, value: number): void {
    this.tag(tag);
    this.varint(value);
  }

  uint64Field(tag: number, value: WireUint64): void {
    if (value === 0 || value === 0n) return;
    this.tag(tag);
    if (typeof value === "number") {
      if (!Number.isSafeInteger(value) || value < 0) {
        throw new RangeError(`${value} is not a whole number from 0 to 2^53 - 1`);
      }
      this.varint(value);
    } else {
      const bits = BigInt.asUintN(64, value);
      if (bits !== value) throw new RangeError(`${value} does not fit 64 bits without sign`);
      this.varint64(Number(bits & 0xffffffffn), Number(bits >> 32n));
    }
  }

  /** A google.protobuf.Timestamp; a fraction of a millisecond is cut off. */
  timestampField(tag: number, ms: number | undefined): void {
    if (ms === undefined) return;
    const seconds = Math.floor(ms / 1000);
    const nanos = Math.floor(ms - seconds * 1000) * 1_000_000;
    const at = this.begin(tag, 1);
    if (seconds !== 0) {
      this.tag(8);
      if (seconds > 0) this.varint(seconds);
      else this.varint64(seconds >>> 0, Math.floor(seconds / two32) >>> 0);
    }
    if (nanos !== 0) this.int32(16, nanos);
    this.end(at, 1);
  }

  /**
   * A message inside this one. Its length stands before it and is known after it, so a number of
   * bytes is set aside; the better the guess, the less often the message has to be moved.
   */
  messageMember<T>(tag: number, lengthBytes: number, write: WireWrite<T>, value: T): void {
    const at = this.begin(tag, lengthBytes);
    write(value, this);
    this.end(at, lengthBytes);
  }

  private begin(tag: number, lengthBytes: number): number {
    this.tag(tag);
    return this.reserve(lengthBytes);
  }

  private end(at: number, lengthBytes: number): void {
    const start = at + lengthBytes;
    const size = this.used - start;
    const needed = varintBytes(size);
    if (needed !== lengthBytes) {
      if (needed > lengthBytes) this.ensure(needed - lengthBytes);
      this.buffer.copyWithin(at + needed, start, this.used);
    }
    this.used = at;
    this.varint(size);
    this.used = at + needed + size;
  }

  private ensure(more: number): void {
    const needed = this.used + more;
    if (needed > this.buffer.length) this.grow(needed);
  }

  private grow(needed: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.buffer.length * 2));
    this.buffer.copy(larger, 0, 0, this.used);
    this.buffer = larger;
  }

  private tag(tag: number): void {
    this.ensure(1);
    if (tag < 0x80) {
      this.buffer[this.used] = tag;
      this.used += 1;
    } else {
      this.varint(tag);
    }
  }

  private int32(tag: number, value: number): void {
    this.tag(tag);
    this.signed(value);
  }

  private signed(value: number): void {
    const whole = value | 0;
    if (whole >= 0) this.varint(whole);
    else this.varint64(whole >>> 0, 0xffffffff);
  }

  private varint(value: number): void {
    if (value >= two32) {
      this.varint64(value >>> 0, Math.floor(value / two32));
      return;
    }
    this.ensure(5);
    let rest = value;
    while (rest > 0x7f) {
      this.buffer[this.used] = (rest & 0x7f) | 0x80;
      this.used += 1;
      rest >>>= 7;
    }
    this.buffer[this.used] = rest;
    this.used += 1;
  }

  /** Two halves of 32 bits without sign. */
  private varint64(low: number, high: number): void {
    this.ensure(10);
    let [lo, hi] = [low, high];
    while (hi !== 0 || lo > 0x7f) {
      this.buffer[this.used] = (lo & 0x7f) | 0x80;
      this.used += 1;
      lo = ((lo >>> 7) | (hi << 25)) >>> 0;
      hi >>>= 7;
    }
    this.buffer[this.used] = lo;
    this.used += 1;
  }

  private text(value: string): void {
    const units = value.length;
    if (units > shortTextMax) {
      this.longText(value);
      return;
    }
    this.ensure(1 + units * 3);
    const at = this.used + 1;
    const buffer = this.buffer;
    let size = 0;
    while (size < units) {
      const unit = value.charCodeAt(size);
      if (unit > 0x7f) {
        size = buffer.write(value, at, "utf8");
        break;
      }
      buffer[at + size] = unit;
      size += 1;
    }
    buffer[at - 1] = size;
    this.used = at + size;
  }

  private longText(value: string): void {
    if (value.length >= longTextMin) {
      const size = Buffer.byteLength(value, "utf8");
      this.varint(size);
      this.ensure(size);
      this.used += this.buffer.write(value, this.used, size, "utf8");
      return;
    }
    this.ensure(5 + value.length * 3);
    const lengthBytes = varintBytes(value.length);
    const at = this.used;
    this.used += lengthBytes;
    this.used += this.buffer.write(value, this.used, "utf8");
    this.end(at, lengthBytes);
  }
}

function varintBytes(value: number): number {
  if (value < 0x80) return 1;
  if (value < 0x4000) return 2;
  if (value < 0x200000) return 3;
  return value < 0x10000000 ? 4 : 5;
}

let scratch: WireWriter | undefined;

/** The bytes of one message, in a buffer of their own. */
export function encodeMessage<T>(write: WireWrite<T>, message: T): Buffer {
  // Taken out while in use, so that a write that encodes another message gets a second writer.
  const writer = scratch ?? new WireWriter();
  scratch = undefined;
  writer.reset();
  write(message, writer);
  const bytes = Buffer.from(writer.view());
  if (writer.capacity <= scratchBytesMax) scratch = writer;
  return bytes;
}
