/**
 * Batches that share one append and one sync, and those who wait for them.
 *
 * Every waiter is told once, in the order in which they came, and one that throws keeps none of the
 * others from being told: what it threw is a bug, and ends the process as an unhandled rejection.
 *
 * States: open, telling (leaves when all have been told) and settled, which is left by no one.
 */
import { GroupWriter, type Slab } from "./batch-codec.ts";
import type { FaultError } from "./fault.ts";
import { type Frame, recordTypes } from "./log/log.ts";

const groupBatchesMax = 1024;
const groupBytesMax = 1024 * 1024;

/** Whoever goes on when a group is settled. */
export interface CommitWaiter {
  durable(): void;
  refused(fault: FaultError): void;
}

/** What a caller may know of the group its batch joined. */
export interface Commit {
  /** The log record the batch is part of. */
  readonly index: number;
  /**
   * Tells the waiter when the record is as durable as the mode promises, or was not kept; at once
   * when that is known already.
   */
  wait(waiter: CommitWaiter): void;
  /** The same as a promise, for callers that are not in a hurry. */
  readonly done: Promise<void>;
}

export class Group implements Commit {
  readonly index: number;
  readonly writer: GroupWriter;
  batchCount = 0;
  isClosed = false;
  #state: "open" | "telling" | "settled" = "open";
  /** Why it was refused; undefined when it is durable, or nobody knows yet. */
  #fault: FaultError | undefined;
  readonly #waiters: CommitWaiter[] = [];
  #done: PromiseWithResolvers<void> | undefined;

  constructor(index: number, slab: Slab) {
    this.index = index;
    this.writer = new GroupWriter(slab);
  }

  get isFull(): boolean {
    return this.batchCount >= groupBatchesMax || this.writer.bodyBytes >= groupBytesMax;
  }

  get done(): Promise<void> {
    if (this.#done === undefined) {
      this.#done = Promise.withResolvers();
      // Whoever asks and does not wait must not end the process when the commit fails.
      this.#done.promise.catch(() => {});
      this.#settleDone();
    }
    return this.#done.promise;
  }

  wait(waiter: CommitWaiter): void {
    if (this.#state === "settled") tell(waiter, this.#fault);
    else this.#waiters.push(waiter);
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
    this.#settle();
  }

  reject(fault: FaultError): void {
    this.#fault = fault;
    this.#settle();
  }

  #settle(): void {
    this.#state = "telling";
    this.#settleDone();
    // Those who come while others are being told are told behind them.
    for (const waiter of this.#waiters) tell(waiter, this.#fault);
    this.#waiters.length = 0;
    this.#state = "settled";
  }

  #settleDone(): void {
    if (this.#state === "open") return;
    if (this.#fault === undefined) this.#done?.resolve();
    else this.#done?.reject(this.#fault);
  }
}

function tell(waiter: CommitWaiter, fault: FaultError | undefined): void {
  try {
    if (fault === undefined) waiter.durable();
    else waiter.refused(fault);
  } catch (error) {
    // A bug of this waiter; nobody handles the rejection, so that the process ends.
    void Promise.reject(error);
  }
}
