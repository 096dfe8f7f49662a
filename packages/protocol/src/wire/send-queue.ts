/**
 * Messages on their way out of one call. What is sent in one turn of the event loop is joined, for it
 * is the number of writes that costs, not the number of messages. The bytes are encoded into a writer
 * that is shared between calls and copied out in one piece, so a call that nobody reads holds exactly
 * what it has sent and nothing of the others.
 *
 * One write at a time is with HTTP/2, and the rest waits here. How much of a write has gone out cannot
 * be asked, only whether all of it has; so of what waits here, and of nothing else, it is certain that
 * the client has not seen it. Who sent it can be told so when the call ends.
 */
import { type WireWrite, WireWriter } from "./writer.ts";

/** What a call is written to, as far as the queue needs it. */
export interface SendSink {
  /** Writes between these two leave as one. */
  cork(): void;
  uncork(): void;
  /** Calls `done` when the bytes have left the process, or with an error when they will not. */
  write(chunk: Buffer, done?: (error?: Error | null) => void): unknown;
}

const prefixBytes = 5;
/** Larger turns go out in pieces of about this size. */
const joinBytesMax = 64 * 1024;
/** A write has no more than this and one message. */
const writeBytesMax = 128 * 1024;
const writerBytes = 4 * 1024;
const writersKeptMax = 64;
const writerBytesKeptMax = 256 * 1024;

/** Writers in rest, and the calls that have something to send at the end of this turn. */
export class SendTurn {
  /** Of all calls together: bytes that were sent and have not left the process. */
  pendingBytes = 0;
  /** Grows with every turn in which something was sent or received. */
  number = 1;
  readonly #writers: WireWriter[] = [];
  readonly #defer: (run: () => void) => void;
  #queues: SendQueue[] = [];
  #isScheduled = false;

  /** What is deferred runs after everything of this turn. */
  constructor(defer: (run: () => void) => void) {
    this.#defer = defer;
  }

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
    this.begin();
  }

  /** Something happens in this turn, so that it will have an end. */
  begin(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#defer(() => this.#flush());
  }

  #flush(): void {
    this.#isScheduled = false;
    this.number += 1;
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

interface Chunk {
  readonly bytes: Buffer;
  readonly unsent: readonly (() => void)[] | undefined;
}

export class SendQueue {
  readonly #options: SendQueueOptions;
  /** Held from the first message of a turn until its end. */
  #writer: WireWriter | undefined;
  /** Of the messages in the writer. */
  #unsent: (() => void)[] | undefined;
  #waiting: Chunk[] = [];
  #pendingBytes = 0;
  /** With HTTP/2; zero when there is no write under way. */
  #leavingBytes = 0;
  #isScheduled = false;
  #isStarted = false;
  #isOver = false;
  #onHandedOver: (() => void) | undefined;

  constructor(options: SendQueueOptions) {
    this.#options = options;
  }

  /** Bytes that were sent and have not left the process. */
  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  /**
   * Adds a message and returns its size; one over the limit is left out, and so is one whose `write`
   * throws. `unsent` is called when the queue is dropped and the message is certain not to have left.
   */
  add<T>(write: WireWrite<T>, message: T, unsent?: () => void): number {
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
    this.#count(prefixBytes + size);
    if (unsent !== undefined) {
      this.#unsent ??= [];
      this.#unsent.push(unsent);
    }
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
    const bytes = this.#options.turn.takeOut(writer);
    if (bytes.length === 0) return;
    this.#waiting.push({ bytes, unsent: this.#unsent });
    this.#unsent = undefined;
    this.#writeNext();
  }

  /** Sends the rest; calls back, perhaps at once, when HTTP/2 has all of it. */
  finish(run: () => void): void {
    this.flush();
    this.#onHandedOver = run;
    this.#tellHandedOver();
  }

  /** The call is over: what waits is dropped, and those who sent it are told. */
  drop(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const writer = this.#writer;
    this.#writer = undefined;
    if (writer !== undefined) this.#options.turn.giveBack(writer);
    const dropped = [...this.#waiting.map(({ unsent }) => unsent), this.#unsent];
    this.#waiting = [];
    this.#unsent = undefined;
    this.#count(-this.#pendingBytes);
    for (const tell of dropped.flatMap((unsent) => unsent ?? [])) tell();
  }

  #writeNext(): void {
    if (this.#isOver || this.#leavingBytes > 0 || this.#waiting.length === 0) return;
    if (!this.#isStarted) {
      this.#isStarted = true;
      this.#options.onFirst();
    }
    let count = 0;
    for (const { bytes } of this.#waiting) {
      if (this.#leavingBytes >= writeBytesMax) break;
      this.#leavingBytes += bytes.length;
      count += 1;
    }
    this.#write(this.#waiting.splice(0, count));
    this.#tellHandedOver();
  }

  #write(chunks: Chunk[]): void {
    const { sink } = this.#options;
    const last = chunks.pop();
    if (last === undefined) return;
    if (chunks.length === 0) {
      sink.write(last.bytes, this.#done);
      return;
    }
    sink.cork();
    for (const { bytes } of chunks) sink.write(bytes);
    sink.write(last.bytes, this.#done);
    sink.uncork();
  }

  readonly #done = (error?: Error | null): void => {
    // The end of the call has come, or it follows and is told there.
    if (this.#isOver || error) return;
    this.#count(-this.#leavingBytes);
    this.#leavingBytes = 0;
    this.#writeNext();
    this.#options.onSent();
  };

  #tellHandedOver(): void {
    if (this.#onHandedOver === undefined || this.#waiting.length > 0) return;
    this.#onHandedOver();
    this.#onHandedOver = undefined;
  }

  #count(change: number): void {
    this.#pendingBytes += change;
    this.#options.turn.pendingBytes += change;
  }
}
