/**
 * One lane of a queue in memory, while it matters: while it has ready tasks or leases, a time in the future, or owes
 * some of its share. How many tasks of the lane are leased is counted from the tasks and stored nowhere.
 *
 *   offered   claims may take its next task
 *   blocked   at its limit, or paused; the end of a lease or a new policy offers it again
 *   waiting   held, or out of units; its timer offers it again
 *
 * Times are those of the monotonic clock, so that a step of the wall clock neither spends units nor gives some back.
 */
import { type Rate, settle, spend, spendableMs } from "@codeq/queue";
import type { HeapItem } from "../../indexed-heap.ts";
import type { LanePolicy } from "../../records/lane-policy.ts";
import type { QueueState } from "../queues/queue-state.ts";
import type { LaneWindow } from "./lane-window.ts";

const halfLifeSeconds = 60;

/** What is spent of a rate, until when nothing may be claimed, and what was claimed of late. One object: there may be many. */
export class Allowance {
  /** When the whole burst may be spent again. */
  wholeMs = 0;
  /** How long a unit takes by the rate that this was counted with; 0 while there was none. */
  unitMs = 0;
  heldMs = 0;
  /** Whether the record of it is out of date, and the lanes of the shard know that. */
  isChanged = false;
  hasRecord = false;
  #recentUnits = 0;
  /** Whole seconds take less memory. */
  #recentSeconds = 0;

  /** Another rate applies: as many units are missing as before. Says whether that has to be written. */
  adopt(rate: Rate | undefined, nowMs: number): boolean {
    if (rate === undefined) return false;
    const unitMs = rate.perMs / rate.units;
    if (unitMs === this.unitMs) return false;
    const isMissing = this.unitMs > 0 && this.wholeMs > nowMs;
    if (isMissing) this.wholeMs = nowMs + ((this.wholeMs - nowMs) * unitMs) / this.unitMs;
    this.unitMs = unitMs;
    return isMissing;
  }

  /** When a task of this cost may be claimed. */
  openMs(rate: Rate | undefined, cost: number): number {
    if (rate === undefined) return this.heldMs;
    return Math.max(this.heldMs, spendableMs(this.wholeMs, rate, cost));
  }

  spend(rate: Rate, cost: number, nowMs: number): void {
    this.wholeMs = spend(this.wholeMs, rate, { cost, nowMs });
  }

  settle(rate: Rate, of: { cost: number; used: number; nowMs: number }): void {
    this.wholeMs = settle(this.wholeMs, rate, of);
  }

  unitsLeft({ burst, units, perMs }: Rate, nowMs: number): number {
    const missing = (Math.max(0, this.wholeMs - nowMs) * units) / perMs;
    return Math.max(0, burst - missing);
  }

  isOver(nowMs: number): boolean {
    return this.wholeMs <= nowMs && this.heldMs <= nowMs;
  }

  /** Units were claimed, by whatever rate. */
  claimed(units: number, nowMs: number): void {
    this.#recentUnits = this.recentUnits(nowMs) + units;
    this.#recentSeconds = Math.floor(nowMs / 1000);
  }

  /** Units that were claimed of late: after a minute, a unit counts half as much. */
  recentUnits(nowMs: number): number {
    if (this.#recentUnits === 0) return 0;
    const passedSeconds = Math.floor(nowMs / 1000) - this.#recentSeconds;
    return this.#recentUnits * 0.5 ** (passedSeconds / halfLifeSeconds);
  }
}

/** Anything that may be claimed from again at a given time. */
export interface Timed extends HeapItem {
  readonly queue: QueueState;
  wake(): void;
}

/** A lane, or a queue with an empty name. */
export interface Spender extends Timed {
  readonly name: string;
  readonly allowance: Allowance;
}

export class Lane implements Spender {
  readonly name: string;
  readonly queue: QueueState;
  /** When its timer ends. */
  dueMs = 0;
  heapIndex = -1;
  /** A list: few lanes have tasks of a second priority. */
  firstWindow: LaneWindow | undefined;
  /** Ready tasks of all windows. */
  ready = 0;
  leased = 0;
  /** Leases that a claim under way is about to take. */
  reserved = 0;
  policy: LanePolicy;
  readonly allowance: Allowance = new Allowance();
  /** The window that claims may take from. */
  offered: LaneWindow | undefined;

  constructor(name: string, queue: QueueState, policy: LanePolicy) {
    this.name = name;
    this.queue = queue;
    this.policy = policy;
  }

  wake(): void {
    this.queue.lanes?.offer(this);
  }

  /** The window of the highest priority that has ready tasks. */
  get top(): LaneWindow | undefined {
    let top: LaneWindow | undefined;
    for (let window = this.firstWindow; window !== undefined; window = window.next) {
      if (window.ready > 0 && (top === undefined || window.priority > top.priority)) top = window;
    }
    return top;
  }

  windowOf(priority: number): LaneWindow | undefined {
    let window = this.firstWindow;
    while (window !== undefined && window.priority !== priority) window = window.next;
    return window;
  }

  *windows(): Generator<LaneWindow> {
    for (let window = this.firstWindow; window !== undefined; window = window.next) yield window;
  }

  get isAtLimit(): boolean {
    return this.leased + this.reserved >= this.policy.concurrency;
  }
}
