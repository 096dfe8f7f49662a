/**
 * Batches that share one append and one sync, and their waiters.
 *
 * Every waiter is notified once, in the order in which they came. A waiter that throws does not keep the others
 * from being notified: its error is a bug, and ends the process as an unhandled rejection.
 *
 * States: open, notifying (until all waiters were notified) and settled, which is final.
 */
import { GroupWriter, type Slab } from "./batch-codec.ts";
import type { FaultError } from "./fault.ts";
import { type Frame, recordTypes } from "./log/log.ts";

const groupBatchesMax = 1024;
const groupBytesMax = 1024 * 1024;

/** Continues when a group is settled. */
export interface CommitWaiter {
  durable(): void;
  refused(fault: FaultError): void;
}

/** The group of a batch, as the caller that committed the batch sees it. */
export interface Commit {
  /** The log record the batch is part of. */
  readonly index: number;
  /**
   * Notifies the waiter when the record is as durable as the mode promises, or was not kept; at once
   * when that is already known.
   */
  wait(waiter: CommitWaiter): void;
  /** Like `wait`, as a promise, for calls that are not on a hot path. */
  readonly done: Promise<void>;
}

export class Group implements Commit {
  readonly index: number;
  readonly writer: GroupWriter;
  batchCount = 0;
  isClosed = false;
  #state: "open" | "telling" | "settled" = "open";
  /** Why it was refused; undefined when it is durable, or not settled yet. */
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
      // A caller that asks and does not wait must not end the process when the commit fails.
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
    // Waiters that come while others are being notified are notified after them.
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
    // A bug of this waiter: the unhandled rejection ends the process.
    void Promise.reject(error);
  }
}
