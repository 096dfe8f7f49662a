/**
 * Messages on their way out of one call. What is sent in one turn of the event loop is joined, for it
 * is the number of writes that costs, not the number of messages. The bytes are encoded into a writer
 * that is shared between calls and copied out in one piece, so a call that nobody reads holds exactly
 * what it has sent and nothing of the others.
 */
import { type WireWrite, WireWriter } from "@codeq/protocol/wire";

/** What a call is written to, as far as the queue needs it. */
export interface SendSink {
  /** Bytes that were written and have not left the process. */
  readonly writableLength: number;
  write(chunk: Buffer, done: () => void): unknown;
}

const prefixBytes = 5;
/** Larger turns go out in pieces of about this size. */
const joinBytesMax = 64 * 1024;
const writerBytes = 4 * 1024;
const writersKeptMax = 64;
const writerBytesKeptMax = 256 * 1024;

/** Writers in rest, and the calls that have something to send at the end of this turn. */
export class SendTurn {
  readonly #writers: WireWriter[] = [];
  #queues: SendQueue[] = [];

  borrow(): WireWriter {
    return this.#writers.pop() ?? new WireWriter(writerBytes);
  }

  /** What was written, in bytes of its own, and the writer goes to rest. */
  takeOut(writer: WireWriter): Buffer {
    if (writer.capacity > writerBytesKeptMax) return writer.view();
    const chunk = Buffer.allocUnsafeSlow(writer.length);
    writer.view().copy(chunk);
    this.giveBack(writer);
    return chunk;
  }

  /** A writer that a very large message made grow is not kept. */
  giveBack(writer: WireWriter): void {
    if (this.#writers.length >= writersKeptMax || writer.capacity > writerBytesKeptMax) return;
    writer.reset();
    this.#writers.push(writer);
  }

  add(queue: SendQueue): void {
    this.#queues.push(queue);
    if (this.#queues.length === 1) setImmediate(() => this.#flush());
  }

  #flush(): void {
    const queues = this.#queues;
    this.#queues = [];
    for (const queue of queues) queue.flush();
  }
}

export interface SendQueueOptions {
  readonly turn: SendTurn;
  readonly sink: SendSink;
  readonly messageBytesMax: number;
  /** Called before the first bytes of the call go out. */
  readonly onFirst: () => void;
  /** Called when bytes have left. */
  readonly onSent: () => void;
}

export class SendQueue {
  readonly #options: SendQueueOptions;
  /** Held from the first message of a turn until its end. */
  #writer: WireWriter | undefined;
  #isScheduled = false;
  #isStarted = false;

  constructor(options: SendQueueOptions) {
    this.#options = options;
  }

  get pendingBytes(): number {
    return (this.#writer?.length ?? 0) + this.#options.sink.writableLength;
  }

  /**
   * Adds a message and returns its size; one over the limit is left out, and so is one whose `write`
   * throws.
   */
  add<T>(write: WireWrite<T>, message: T): number {
    const writer = this.#writer ?? this.#options.turn.borrow();
    this.#writer = writer;
    const at = writer.reserve(prefixBytes);
    try {
      write(message, writer);
    } catch (error) {
      writer.truncate(at);
      throw error;
    }
    const size = writer.length - at - prefixBytes;
    if (size > this.#options.messageBytesMax) {
      writer.truncate(at);
      return size;
    }
    writer.patchPrefix(at, 0, size);
    if (writer.length >= joinBytesMax) {
      this.flush();
    } else if (!this.#isScheduled) {
      this.#isScheduled = true;
      this.#options.turn.add(this);
    }
    return size;
  }

  flush(): void {
    this.#isScheduled = false;
    const writer = this.#writer;
    if (writer === undefined) return;
    this.#writer = undefined;
    const chunk = this.#options.turn.takeOut(writer);
    if (chunk.length === 0) return;
    if (!this.#isStarted) {
      this.#isStarted = true;
      this.#options.onFirst();
    }
    this.#options.sink.write(chunk, this.#options.onSent);
  }

  /** Drops what has not been flushed. */
  drop(): void {
    const writer = this.#writer;
    this.#writer = undefined;
    if (writer !== undefined) this.#options.turn.giveBack(writer);
  }
}
