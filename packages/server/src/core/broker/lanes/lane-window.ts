/**
 * The ready tasks of one lane and one priority: how many there are, and the oldest of them in memory; the rest is on
 * disk, behind `coveredTo`. Like the window of a queue (`ReadyWindow`), it never reads twice what it has seen. A task
 * may also come back with the position that it had: it keeps its turn.
 */
import type { TaskId } from "@codeq/queue";
import type { HeapItem } from "../../indexed-heap.ts";
import type { Position } from "../../store/store.ts";
import type { Lane } from "./lane.ts";
import { type LaneEntries, noEntry } from "./lane-entries.ts";

export interface LanePosition extends Position {
  readonly cost: number;
}

export class LaneWindow implements HeapItem {
  readonly lane: Lane;
  readonly priority: number;
  readonly #entries: LaneEntries;
  /** The start tag of the next task; the rank of the window among those that may be claimed from. */
  dueMs = 0;
  heapIndex = -1;
  /** The next one of the same lane. */
  next: LaneWindow | undefined;
  /** Where the lane stands after its last task, in this busy period of the queue. */
  endTag = 0;
  period = 0;
  /** All ready tasks, in memory or not. */
  ready = 0;
  /** The number of tasks in memory. */
  size = 0;
  coveredTo = 0;
  /** Grows when a task that is on disk only leaves or comes back; a reading under way may have missed it. */
  moves = 0;
  reading: Promise<void> | undefined;
  #newest = 0;
  #head = noEntry;
  #tail = noEntry;
  /** Sequence numbers of tasks that left without being taken; never that of the head. */
  #gone: Set<number> | undefined;

  constructor(lane: Lane, priority: number, entries: LaneEntries) {
    this.lane = lane;
    this.priority = priority;
    this.#entries = entries;
  }

  /** The oldest task in memory; undefined when none is. */
  get head(): LanePosition | undefined {
    const at = this.#head;
    if (at === noEntry) return undefined;
    const entries = this.#entries;
    return { number: entries.seq(at), id: entries.id(at), cost: entries.cost(at) };
  }

  get headSeq(): number | undefined {
    return this.#head === noEntry ? undefined : this.#entries.seq(this.#head);
  }

  /** What the next task costs; 1 while that is not known. */
  get headCost(): number {
    return this.#head === noEntry ? 1 : this.#entries.cost(this.#head);
  }

  arrive({ number: seq, id, cost }: LanePosition, hasRoom: boolean): void {
    if (seq <= this.#newest) {
      this.#comeBack(seq, id, cost);
      return;
    }
    const isComplete = this.coveredTo === this.#newest;
    this.#newest = seq;
    if (!isComplete || !hasRoom) return;
    this.#push(seq, id, cost);
    this.coveredTo = seq;
  }

  /** A task keeps the turn that it had: it goes before the tasks that came after it. */
  #comeBack(seq: number, id: TaskId, cost: number): void {
    if (seq > this.coveredTo) {
      this.moves += 1;
      return;
    }
    const entries = this.#entries;
    const at = entries.add(seq, id, cost);
    let before = noEntry;
    let after = this.#head;
    while (after !== noEntry && entries.seq(after) < seq) {
      before = after;
      after = entries.next(after);
    }
    entries.link(at, after);
    if (before === noEntry) this.#head = at;
    else entries.link(before, at);
    if (after === noEntry) this.#tail = at;
    this.size += 1;
  }

  /** A task is not ready any more, and was not taken. */
  leave(seq: number): void {
    if (seq > this.coveredTo) {
      this.moves += 1;
      return;
    }
    this.size -= 1;
    this.#gone ??= new Set();
    this.#gone.add(seq);
    this.#passOver();
  }

  /** Takes the oldest task in memory. */
  take(): void {
    this.size -= 1;
    this.#dropHead();
    this.#passOver();
  }

  /** How many tasks in memory come before a sequence number, and up to which number that is exact. */
  aheadOf(seq: number): { readonly count: number; readonly knownTo: number } {
    const entries = this.#entries;
    let count = 0;
    let at = this.#head;
    for (; at !== noEntry && entries.seq(at) < seq; at = entries.next(at)) {
      if (this.#gone?.has(entries.seq(at)) !== true) count += 1;
    }
    return { count, knownTo: this.coveredTo };
  }

  /** Starts with so many tasks on disk and none in memory. */
  recover(ready: number, newest: number): void {
    this.ready = ready;
    this.#newest = newest;
  }

  beginReading(): number {
    return this.#newest;
  }

  /** Adds what a scan behind `coveredTo` found; the scan is complete up to `reached`. */
  endReading(found: readonly LanePosition[], reached: number): void {
    this.coveredTo = reached;
    for (const { number, id, cost } of found) this.#push(number, id, cost);
  }

  /** Gives the memory back. */
  clear(): void {
    while (this.#head !== noEntry) this.#dropHead();
  }

  #push(seq: number, id: TaskId, cost: number): void {
    const at = this.#entries.add(seq, id, cost);
    if (this.#tail === noEntry) this.#head = at;
    else this.#entries.link(this.#tail, at);
    this.#tail = at;
    this.size += 1;
  }

  /** Drops tasks that have left from the head, so that the head is a ready task. */
  #passOver(): void {
    while (this.#gone !== undefined && this.#head !== noEntry) {
      if (!this.#gone.delete(this.#entries.seq(this.#head))) return;
      if (this.#gone.size === 0) this.#gone = undefined;
      this.#dropHead();
    }
  }

  #dropHead(): void {
    const at = this.#head;
    this.#head = this.#entries.next(at);
    if (this.#head === noEntry) this.#tail = noEntry;
    this.#entries.free(at);
  }
}
