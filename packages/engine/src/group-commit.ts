/**
 * Many writers, one append at a time. A batch joins the group that is open; the group is appended as
 * soon as the append before it has finished, so an idle log adds no delay and a busy one batches by
 * itself. Groups are appended in the order they were opened, and a group is resolved only after
 * every group before it.
 */
import { Slab } from "./batch-codec.ts";
import type { FaultError } from "./fault.ts";
import { Group } from "./group.ts";
import type { Log } from "./log/log.ts";

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
  readonly nowMs: () => number;
  /** Runs a function soon, after what arrived in the same turn. */
  readonly defer: (run: () => void) => void;
  readonly events: GroupCommitEvents;
}

export class GroupCommit {
  readonly #options: GroupCommitOptions;
  #waiting: Group[] = [];
  #appending: Group | undefined;
  #slab: Slab = new Slab();
  #deferred = false;
  #paused = false;
  #isFailed = false;
  #lastIndex: number;

  constructor(options: GroupCommitOptions) {
    this.#options = options;
    this.#lastIndex = options.log.lastIndex;
  }

  /** Bytes that wait for their turn to be appended. */
  get waitingBytes(): number {
    return this.#waiting.reduce((sum, group) => sum + group.writer.bodyBytes, 0);
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
    if (this.#appending?.index === index) return this.#appending;
    return this.#waiting.find((group) => group.index === index);
  }

  /** The newest group that is not durable yet. */
  newest(): Group | undefined {
    return this.#waiting.at(-1) ?? this.#appending;
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
    const rejected = [this.#appending, ...this.#waiting];
    this.#appending = undefined;
    this.#waiting = [];
    for (const group of rejected) group?.reject(fault);
  }

  /** Continues from the log as it is, after a fault that it recovered from. */
  restart(): void {
    this.#paused = false;
    this.#lastIndex = this.#options.log.lastIndex;
    this.#slab = new Slab();
  }

  #schedule(): void {
    if (this.#deferred || this.#appending !== undefined) return;
    this.#deferred = true;
    this.#options.defer(() => {
      this.#deferred = false;
      this.#pump();
    });
  }

  #pump(): void {
    if (this.#appending !== undefined || this.#paused || this.#isFailed) return;
    const group = this.#waiting.shift();
    if (group === undefined) return;
    this.#close(group);
    this.#appending = group;
    this.#options.log.append(group.frame(this.#options.nowMs())).then(
      () => this.#appended(group),
      (fault) => this.#failed(group, fault as FaultError),
    );
  }

  #close(group: Group): void {
    if (group.isClosed) return;
    group.isClosed = true;
    this.#options.events.closing(group);
    group.writer.finish();
  }

  /** The next append starts before the waiters run, so that their work overlaps with it. */
  #appended(group: Group): void {
    if (this.#isFailed) return;
    this.#appending = undefined;
    this.#options.events.durable(group);
    this.#pump();
    group.resolve();
  }

  #failed(group: Group, fault: FaultError): void {
    if (this.#isFailed) return;
    const rejected = [group, ...this.#waiting];
    this.#waiting = [];
    this.#appending = undefined;
    this.#options.events.failed(fault);
    for (const each of rejected) each.reject(fault);
  }
}
