/** Uncompresses blocks of tables, which use Snappy; LevelDB has no call to read a single block. */

/** Undefined when the bytes are damaged. */
export function uncompress(bytes: Uint8Array): Buffer | undefined {
  try {
    return new Uncompression(bytes).run();
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** The format: a length, then literals and copies of earlier bytes, each behind a tag. */
class Uncompression {
  readonly #bytes: Uint8Array;
  #at = 0;
  readonly #out: Buffer;
  #end = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    const length = this.#varint();
    // The format cannot expand a byte to more than this.
    if (length > bytes.length * 64) throw new RangeError("length");
    this.#out = Buffer.allocUnsafe(length);
  }

  run(): Buffer {
    while (this.#at < this.#bytes.length) {
      const tag = this.#number(1);
      const kind = tag & 3;
      if (kind === 0) this.#literal(tag >>> 2);
      else if (kind === 1) this.#copy(((tag >>> 2) & 7) + 4, this.#number(1) + (tag >>> 5) * 256);
      else this.#copy((tag >>> 2) + 1, this.#number(kind === 2 ? 2 : 4));
    }
    if (this.#end !== this.#out.length) throw new RangeError("short");
    return this.#out;
  }

  #literal(size: number): void {
    const length = 1 + (size < 60 ? size : this.#number(size - 59));
    const end = this.#at + length;
    if (end > this.#bytes.length || length > this.#out.length - this.#end) {
      throw new RangeError("literal");
    }
    this.#out.set(this.#bytes.subarray(this.#at, end), this.#end);
    this.#at = end;
    this.#end += length;
  }

  /** Byte by byte: a copy may reach into what it has just written. */
  #copy(length: number, distance: number): void {
    const out = this.#out;
    const end = this.#end + length;
    if (distance === 0 || distance > this.#end || end > out.length) throw new RangeError("copy");
    for (let at = this.#end; at < end; at++) out[at] = out[at - distance] as number;
    this.#end = end;
  }

  #varint(): number {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#number(1);
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
  }

  #number(count: number): number {
    if (this.#at + count > this.#bytes.length) throw new RangeError("end");
    let value = 0;
    for (let n = 0; n < count; n++) value += (this.#bytes[this.#at + n] as number) * 256 ** n;
    this.#at += count;
    return value;
  }
}
