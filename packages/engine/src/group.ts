/** Batches that share one append and one sync, and the promise that all of them wait for. */
import { GroupWriter, type Slab } from "./batch-codec.ts";
import type { FaultError } from "./fault.ts";
import { type Frame, recordTypes } from "./log/log.ts";

const groupBatchesMax = 1024;
const groupBytesMax = 1024 * 1024;

/** What a caller may know of the group its batch joined. */
export interface Commit {
  /** The log record the batch is part of. */
  readonly index: number;
  /** Settles when the record is as durable as the mode promises, or was not kept. */
  readonly done: Promise<void>;
}

export class Group implements Commit {
  readonly index: number;
  readonly writer: GroupWriter;
  readonly done: Promise<void>;
  batchCount = 0;
  isClosed = false;
  #resolve: () => void = () => {};
  #reject: (fault: FaultError) => void = () => {};

  constructor(index: number, slab: Slab) {
    this.index = index;
    this.writer = new GroupWriter(slab);
    this.done = new Promise<void>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // Whoever does not wait for the commit (a heartbeat) must not end the process when it fails.
    this.done.catch(() => {});
  }

  get isFull(): boolean {
    return this.batchCount >= groupBatchesMax || this.writer.bodyBytes >= groupBytesMax;
  }

  frame(timeMs: number): Frame {
    return {
      buffer: this.writer.finish(),
      bodyBytes: this.writer.bodyBytes,
      opCount: this.writer.opCount,
      type: recordTypes.batches,
      timeMs,
    };
  }

  resolve(): void {
    this.#resolve();
  }

  reject(fault: FaultError): void {
    this.#reject(fault);
  }
}
