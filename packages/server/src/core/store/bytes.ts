/**
 * Numbers and texts in a buffer, for records. A number is a whole number of at least 0, seven bits a byte, lowest
 * bits first. A text is its length and UTF-8: a length of one byte where that is certainly enough, otherwise a mark
 * and four bytes. A text with half a surrogate pair, which UTF-8 cannot encode, is UTF-16 after another mark.
 * Writers assume that there is room; readers check everything.
 */

/** What Node's buffers have and their types leave out: writing without choosing the encoding first. */
interface TextBuffer extends Buffer {
  utf8Write(text: string, offset: number, length: number): number;
}

/** The most bytes that a number takes, and a text besides its characters. */
export const numberBytesMax = 8;
export const textExtraBytes = 5;
/** The most bytes that UTF-8 needs for one UTF-16 unit. */
export const unitBytesMax = 3;

const shortUnitsMax = 42;
const longMark = 0xff;
const unitsMark = 0xfe;

export function writeNumber(buffer: Buffer, at: number, value: number): number {
  let left = value;
  let end = at;
  // Times are larger than what bits can be shifted of: four bytes at once, then the rest.
  while (left >= 0x1000_0000) {
    const low = left % 0x1000_0000;
    left = (left - low) / 0x1000_0000;
    buffer[end] = (low & 0x7f) | 0x80;
    buffer[end + 1] = ((low >>> 7) & 0x7f) | 0x80;
    buffer[end + 2] = ((low >>> 14) & 0x7f) | 0x80;
    buffer[end + 3] = (low >>> 21) | 0x80;
    end += 4;
  }
  while (left >= 0x80) {
    buffer[end++] = (left & 0x7f) | 0x80;
    left >>>= 7;
  }
  buffer[end++] = left;
  return end;
}

export function writeText(buffer: Buffer, at: number, text: string): number {
  const units = text.length;
  if (units > shortUnitsMax) {
    if (!text.isWellFormed()) return writeUnits(buffer, at, text);
    const bytes = (buffer as TextBuffer).utf8Write(text, at + textExtraBytes, units * unitBytesMax);
    writeLength(buffer, at, longMark, bytes);
    return at + textExtraBytes + bytes;
  }
  const start = at + 1;
  for (let unit = 0; unit < units; unit++) {
    const code = text.charCodeAt(unit);
    if (code > 0x7f) {
      if (!text.isWellFormed()) return writeUnits(buffer, at, text);
      const bytes = (buffer as TextBuffer).utf8Write(text, start, units * unitBytesMax);
      buffer[at] = bytes;
      return start + bytes;
    }
    buffer[start + unit] = code;
  }
  buffer[at] = units;
  return start + units;
}

function writeUnits(buffer: Buffer, at: number, text: string): number {
  const bytes = buffer.write(text, at + textExtraBytes, "utf16le");
  writeLength(buffer, at, unitsMark, bytes);
  return at + textExtraBytes + bytes;
}

function writeLength(buffer: Buffer, at: number, mark: number, bytes: number): void {
  buffer[at] = mark;
  buffer[at + 1] = bytes;
  buffer[at + 2] = bytes >>> 8;
  buffer[at + 3] = bytes >>> 16;
  buffer[at + 4] = bytes >>> 24;
}

/** Thrown for bytes that cannot be decoded. */
export class DamagedBytes extends Error {}

/** Reads from `start` to `end` and not beyond. */
export class ByteReader {
  readonly #buffer: Buffer;
  readonly #end: number;
  #at: number;

  constructor(buffer: Buffer, start: number, end: number) {
    this.#buffer = buffer;
    this.#at = start;
    this.#end = end;
  }

  static of({ buffer, byteOffset, byteLength }: Uint8Array): ByteReader {
    return new ByteReader(Buffer.from(buffer, byteOffset, byteLength), 0, byteLength);
  }

  get isAtEnd(): boolean {
    return this.#at === this.#end;
  }

  /** Skips bytes that other code reads; returns their offset. */
  skip(bytes: number): number {
    const start = this.#at;
    if (start + bytes > this.#end) throw new DamagedBytes("ends too early");
    this.#at = start + bytes;
    return start;
  }

  byte(): number {
    if (this.#at >= this.#end) throw new DamagedBytes("ends too early");
    return this.#buffer[this.#at++] as number;
  }

  number(): number {
    let value = 0;
    for (let factor = 1; factor <= 2 ** 49; factor *= 0x80) {
      const byte = this.byte();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) {
        if (!Number.isSafeInteger(value)) break;
        return value;
      }
    }
    throw new DamagedBytes("a number is too large");
  }

  /** Any number. */
  double(): number {
    return this.#buffer.readDoubleLE(this.skip(8));
  }

  text(): string {
    const first = this.byte();
    let bytes = first;
    if (first >= unitsMark) {
      if (this.#at + 4 > this.#end) throw new DamagedBytes("ends too early");
      bytes = this.#buffer.readUInt32LE(this.#at);
      this.#at += 4;
    }
    const start = this.skip(bytes);
    return this.#buffer.toString(first === unitsMark ? "utf16le" : "utf8", start, this.#at);
  }
}
