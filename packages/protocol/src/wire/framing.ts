/**
 * Messages out of the bytes of a call. Each has a prefix of five bytes: a flag for compression and a
 * length. A message that lies whole in a chunk is a view of it; one that is spread over several is
 * put together in a buffer that grows with what has arrived, never with what was announced.
 */
/** Why the rest of a call cannot be read: the status that the call ends with, and its text. */
export interface FrameFault {
  readonly status: "INTERNAL" | "RESOURCE_EXHAUSTED" | "UNIMPLEMENTED";
  readonly message: string;
}

export interface FramingOptions {
  readonly messageBytesMax: number;
  /** The grpc-encoding header of the call. */
  readonly encoding: string | undefined;
}

const prefixBytes = 5;
const assemblyBytesMin = 16 * 1024;
/** What a chunk takes in memory besides its bytes. */
const chunkBytes = 160;
const nothing: Buffer = Buffer.alloc(0);

export class FrameReader {
  /** The limit for messages that begin from now on. */
  messageBytesMax: number;
  readonly #encoding: string | undefined;
  /** Chunks that have not been read yet. */
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #chunk: Buffer = nothing;
  #offset = 0;
  readonly #prefix: Buffer = Buffer.alloc(prefixBytes);
  #prefixFilled = 0;
  /** Length of the message under assembly; undefined between messages. */
  #length: number | undefined;
  #body: Buffer = nothing;
  #bodyFilled = 0;
  #fault: FrameFault | undefined;

  constructor({ messageBytesMax, encoding }: FramingOptions) {
    this.messageBytesMax = messageBytesMax;
    this.#encoding = encoding;
  }

  /** Why no further message can be read. */
  get fault(): FrameFault | undefined {
    return this.#fault;
  }

  /** Whether the bytes so far end inside a message. Only meaningful after `next` returned undefined. */
  get isInsideMessage(): boolean {
    return this.#prefixFilled > 0 || this.#length !== undefined;
  }

  /** Memory of chunks that `next` has not read. */
  get unreadBytes(): number {
    return this.#waitingBytes + this.#chunk.length - this.#offset;
  }

  /** Memory of all input that was not handed over. */
  get heldBytes(): number {
    return this.#body.length + this.unreadBytes;
  }

  push(chunk: Buffer): void {
    if (chunk.length === 0) return;
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.length + chunkBytes;
  }

  /** Drops everything that was not handed over. */
  clear(): void {
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#chunk = nothing;
    this.#offset = 0;
    this.#body = nothing;
  }

  /** The next whole message, if there is one and nothing was wrong before it. */
  next(): Buffer | undefined {
    while (this.#fault === undefined) {
      if (this.#length !== undefined && this.#bodyFilled === this.#length) return this.#finish();
      if (!this.#hasBytes()) return undefined;
      if (this.#length !== undefined) {
        this.#fill(this.#length);
      } else if (this.#prefixFilled > 0 || this.#chunk.length - this.#offset < prefixBytes) {
        this.#collectPrefix();
      } else {
        const message = this.#startInPlace();
        if (message !== undefined) return message;
      }
    }
    return undefined;
  }

  #hasBytes(): boolean {
    if (this.#offset < this.#chunk.length) return true;
    // Drop the reference to a finished chunk, even when no other follows.
    this.#chunk = this.#waiting.shift() ?? nothing;
    this.#offset = 0;
    if (this.#chunk.length === 0) return false;
    this.#waitingBytes -= this.#chunk.length + chunkBytes;
    return true;
  }

  /** The whole prefix is in the chunk, and mostly the whole message. */
  #startInPlace(): Buffer | undefined {
    const start = this.#offset + prefixBytes;
    const length = this.#readPrefix(this.#chunk, this.#offset);
    if (length === undefined) return undefined;
    if (this.#chunk.length - start < length) {
      this.#offset = start;
      this.#length = length;
      return undefined;
    }
    this.#offset = start + length;
    return this.#chunk.subarray(start, this.#offset);
  }

  #collectPrefix(): void {
    const end = Math.min(this.#chunk.length, this.#offset + prefixBytes - this.#prefixFilled);
    this.#chunk.copy(this.#prefix, this.#prefixFilled, this.#offset, end);
    this.#prefixFilled += end - this.#offset;
    this.#offset = end;
    if (this.#prefixFilled < prefixBytes) return;
    this.#prefixFilled = 0;
    this.#length = this.#readPrefix(this.#prefix, 0);
  }

  #fill(length: number): void {
    const end = Math.min(this.#chunk.length, this.#offset + length - this.#bodyFilled);
    const filled = this.#bodyFilled + end - this.#offset;
    if (filled > this.#body.length) {
      const size = Math.min(length, Math.max(filled, this.#body.length * 2, assemblyBytesMin));
      const larger = Buffer.allocUnsafeSlow(size);
      this.#body.copy(larger, 0, 0, this.#bodyFilled);
      this.#body = larger;
    }
    this.#chunk.copy(this.#body, this.#bodyFilled, this.#offset, end);
    this.#bodyFilled = filled;
    this.#offset = end;
  }

  #finish(): Buffer {
    const message = this.#body;
    this.#body = nothing;
    this.#bodyFilled = 0;
    this.#length = undefined;
    return message;
  }

  /** The length, or undefined after noting what is wrong with it. */
  #readPrefix(from: Buffer, at: number): number | undefined {
    const flag = from[at] ?? 0;
    const length = from.readUInt32BE(at + 1);
    if (flag !== 0) this.#fault = compressionFault(flag, this.#encoding);
    else if (length > this.messageBytesMax) {
      const max = this.messageBytesMax;
      this.#fault = {
        status: "RESOURCE_EXHAUSTED",
        message: `grpc: received message larger than max (${length} vs. ${max})`,
      };
    }
    return this.#fault === undefined ? length : undefined;
  }
}

/** The texts are the same as those of other gRPC servers. */
function compressionFault(flag: number, encoding: string | undefined): FrameFault {
  if (flag !== 1) {
    return {
      status: "INTERNAL",
      message: `grpc: received unexpected payload format ${flag}`,
    };
  }
  if (encoding === undefined || encoding === "identity") {
    return {
      status: "INTERNAL",
      message: "grpc: compressed flag set with identity or empty encoding",
    };
  }
  return {
    status: "UNIMPLEMENTED",
    message: `grpc: Decompressor is not installed for grpc-encoding "${encoding}"`,
  };
}
