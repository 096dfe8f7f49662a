/**
 * Many writers, few appends. A batch joins the group that is open; the group is appended as soon as
 * the log takes another append, so an idle log adds no delay and a busy one batches by itself. Groups
 * are appended in the order they were opened, and a group is resolved only after every group before
 * it.
 *
 * Where an append is expensive, a busy log waits a little before the next append: callers that were just
 * answered send their next batches, which then share this append.
 */
import { GroupWriter, Slab } from "./batch-codec.ts";
import type { EngineClock } from "./engine-options.ts";
import type { FaultError } from "./fault.ts";
import { type Frame, type Log, recordTypes } from "./log/log.ts";

/** A log with at least this many batches in an append is busy, and so is one for which others wait when an append ends. */
const gatheredBatchesMin = 8;

export interface GroupCommitEvents {
  /** Called when a group is about to be opened. */
  opening(index: number): void;
  /** Called when a group takes no more batches; ops may be added to its writer for the last time. */
  closing(group: Group): void;
  /** Called before the waiters of a durable group continue. */
  durable(group: Group): void;
  /** An append failed; every group that was waiting has been rejected with the same fault. */
  failed(fault: FaultError): void;
}

export interface GroupCommitOptions {
  readonly log: Log;
  readonly clock: EngineClock;
  /** Runs a function soon, after what arrived in the same turn. */
  readonly defer: (run: () => void) => void;
  readonly events: GroupCommitEvents;
}

export class GroupCommit {
  readonly #options: GroupCommitOptions;
  readonly #waiting: Group[] = [];
  /** Groups that the log has, oldest first; it answers in that order. */
  readonly #appending: Group[] = [];
  #slab: Slab = new Slab();
  #deferred = false;
  /** The next append waits for callers that the last one answered. */
  #isGathering = false;
  #paused = false;
  #isFailed = false;
  #lastIndex: number;

  constructor(options: GroupCommitOptions) {
    this.#options = options;
    this.#lastIndex = options.log.lastIndex;
  }

  /** Bytes that wait for their turn to be appended. */
  get waitingBytes(): number {
    let bytes = 0;
    for (let at = 0; at < this.#waiting.length; at++) {
      bytes += this.#waiting[at]?.writer.bodyBytes ?? 0;
    }
    return bytes;
  }

  /** The group that the next batch belongs to. */
  open(): Group {
    const newest = this.#waiting.at(-1);
    if (newest !== undefined && !newest.isFull) return newest;
    if (newest !== undefined) this.#close(newest);
    this.#options.events.opening(this.#lastIndex + 1);
    this.#lastIndex += 1;
    const group = new Group(this.#lastIndex, this.#slab);
    this.#waiting.push(group);
    this.#schedule();
    return group;
  }

  /** The group of a log index that is not durable yet. */
  find(index: number): Group | undefined {
    const isWanted = (group: Group): boolean => group.index === index;
    return this.#appending.find(isWanted) ?? this.#waiting.find(isWanted);
  }

  /** The newest group that is not durable yet. */
  newest(): Group | undefined {
    return this.#waiting.at(-1) ?? this.#appending.at(-1);
  }

  /** Holds back appends until `resume`, so that memory stays bounded while the kv catches up. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#pump();
  }

  /** Rejects what waits and what is being appended; nothing is appended or resolved any more. */
  fail(fault: FaultError): void {
    this.#isFailed = true;
    for (const group of this.#takeAll()) group.reject(fault);
  }

  /** Continues from the log as it is, after a fault that it recovered from. */
  restart(): void {
    this.#paused = false;
    this.#lastIndex = this.#options.log.lastIndex;
    this.#slab = new Slab();
  }

  #schedule(): void {
    if (this.#deferred || !this.#options.log.canAppend) return;
    this.#deferred = true;
    this.#options.defer(this.#runDeferred);
  }

  readonly #runDeferred = (): void => {
    this.#deferred = false;
    this.#pump();
  };

  #pump(): void {
    const { log, clock } = this.#options;
    while (!this.#isGathering && !this.#paused && !this.#isFailed && log.canAppend) {
      const group = this.#waiting.shift();
      if (group === undefined) return;
      this.#close(group);
      this.#appending.push(group);
      log.append(group.frame(clock.nowMs()), this.#appended);
    }
  }

  #close(group: Group): void {
    if (group.isClosed) return;
    group.isClosed = true;
    this.#options.events.closing(group);
    group.writer.finish();
  }

  /** The next append starts before the waiters run, so that their work overlaps with it. */
  readonly #appended = (fault: FaultError | undefined): void => {
    const group = this.#appending[0];
    // Groups behind a failed one were rejected together with it.
    if (group === undefined) return;
    if (fault !== undefined) {
      this.#failed(fault);
      return;
    }
    this.#appending.shift();
    this.#options.events.durable(group);
    const { gatherMs } = this.#options.log;
    // Writers that came during the append do not wait for each answer before they send more.
    const isBusy = group.batchCount >= gatheredBatchesMin || this.#waiting.length > 0;
    if (gatherMs === undefined || !isBusy) this.#pump();
    else this.#gather(gatherMs);
    group.resolve();
  };

  #gather(ms: number): void {
    this.#isGathering = true;
    void this.#options.clock.after(ms, () => {
      this.#isGathering = false;
      this.#pump();
    });
  }

  #failed(fault: FaultError): void {
    const rejected = this.#takeAll();
    this.#options.events.failed(fault);
    for (const group of rejected) group.reject(fault);
  }

  #takeAll(): Group[] {
    return [...this.#appending.splice(0), ...this.#waiting.splice(0)];
  }
}

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

/**
 * Batches that share one append and one sync, and their waiters.
 *
 * Every waiter is notified once, in the order in which they came. A waiter that throws does not keep the others
 * from being notified: its error is a bug, and ends the process as an unhandled rejection.
 *
 * States: open, notifying (until all waiters were notified) and settled, which is final.
 */
export class Group implements Commit {
  readonly index: number;
  readonly writer: GroupWriter;
  batchCount = 0;
  isClosed = false;
  #state: "open" | "notifying" | "settled" = "open";
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
    if (this.#state === "settled") notify(waiter, this.#fault);
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
    this.#state = "notifying";
    this.#settleDone();
    // Waiters that come while others are being notified are notified after them.
    for (const waiter of this.#waiters) notify(waiter, this.#fault);
    this.#waiters.length = 0;
    this.#state = "settled";
  }

  #settleDone(): void {
    if (this.#state === "open") return;
    if (this.#fault === undefined) this.#done?.resolve();
    else this.#done?.reject(this.#fault);
  }
}

function notify(waiter: CommitWaiter, fault: FaultError | undefined): void {
  try {
    if (fault === undefined) waiter.durable();
    else waiter.refused(fault);
  } catch (error) {
    // A bug of this waiter: the unhandled rejection ends the process.
    void Promise.reject(error);
  }
}
