/**
 * Outgoing messages of one call. The messages of one turn of the event loop are joined, because the number of
 * writes costs, not the number of messages. The bytes are encoded into a writer that is shared between calls
 * and copied out in one piece, so a call whose client does not read holds exactly its own bytes.
 *
 * HTTP/2 has one write at a time, and the rest waits here. HTTP/2 does not say how much of a write has left, only
 * whether all of it has; so messages that wait here, and only those, have certainly not reached the client. Their
 * senders are notified when the call ends.
 */
import { type WireWrite, WireWriter } from "./writer.ts";

/** The methods of an HTTP/2 stream that the queue uses. */
export interface SendSink {
  /** Writes between `cork` and `uncork` leave as one. */
  cork(): void;
  uncork(): void;
  /** Calls `done` when the bytes have left the process, or with an error when they will not. */
  write(chunk: Buffer, done?: (error?: Error | null) => void): unknown;
}

const prefixBytes = 5;
/** Larger turns go out in pieces of about this size. */
const joinBytesMax = 64 * 1024;
/** A write has at most this many bytes plus one message. */
const writeBytesMax = 128 * 1024;
const writerBytes = 4 * 1024;
const writersKeptMax = 64;
const writerBytesKeptMax = 256 * 1024;

/** Free writers, and the calls that have something to send at the end of this turn. */
export class SendTurn {
  /** Bytes of all calls that were sent and have not left the process. */
  pendingBytes = 0;
  /** Grows with every turn in which something was sent or received. */
  number = 1;
  readonly #writers: WireWriter[] = [];
  readonly #defer: (run: () => void) => void;
  #queues: SendQueue[] = [];
  #isScheduled = false;

  /** `defer` runs a function after everything else of this turn. */
  constructor(defer: (run: () => void) => void) {
    this.#defer = defer;
  }

  borrow(): WireWriter {
    return this.#writers.pop() ?? new WireWriter(writerBytes);
  }

  /** Copies what was written, and frees the writer. */
  takeOut(writer: WireWriter): Buffer {
    if (writer.capacity > writerBytesKeptMax) return writer.view();
    const chunk = Buffer.allocUnsafeSlow(writer.length);
    writer.view().copy(chunk);
    this.giveBack(writer);
    return chunk;
  }

  /** Frees a writer; one that grew for a very large message is dropped. */
  giveBack(writer: WireWriter): void {
    if (this.#writers.length >= writersKeptMax || writer.capacity > writerBytesKeptMax) return;
    writer.reset();
    this.#writers.push(writer);
  }

  add(queue: SendQueue): void {
    this.#queues.push(queue);
    this.begin();
  }

  /** Schedules the end of this turn. */
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
  /** Set from the first message of a turn until its end. */
  #writer: WireWriter | undefined;
  /** The `unsent` callbacks of the messages in the writer. */
  #unsent: (() => void)[] | undefined;
  #waiting: Chunk[] = [];
  #pendingBytes = 0;
  /** Bytes of the write that HTTP/2 has; zero when there is none. */
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

  /** Sends the rest; calls `run`, perhaps at once, when HTTP/2 has all of it. */
  finish(run: () => void): void {
    this.flush();
    this.#onHandedOver = run;
    this.#notifyHandedOver();
  }

  /** Drops the waiting messages of a call that is over, and notifies their senders. */
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
    for (const notify of dropped.flatMap((unsent) => unsent ?? [])) notify();
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
    this.#notifyHandedOver();
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
    // The call has ended, or its end follows and reports the error.
    if (this.#isOver || error) return;
    this.#count(-this.#leavingBytes);
    this.#leavingBytes = 0;
    this.#writeNext();
    this.#options.onSent();
  };

  #notifyHandedOver(): void {
    if (this.#onHandedOver === undefined || this.#waiting.length > 0) return;
    this.#onHandedOver();
    this.#onHandedOver = undefined;
  }

  #count(change: number): void {
    this.#pendingBytes += change;
    this.#options.turn.pendingBytes += change;
  }
}
