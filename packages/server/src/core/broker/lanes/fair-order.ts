/**
 * The lanes of one queue and priority that claims may take from, in the order of their start tags. The tasks without a
 * lane count as one more lane. Tags begin again when nothing was left to claim, so that no lane owes anything then.
 */
import { endTag, startTag } from "@codeq/queue";
import { IndexedHeap } from "../../indexed-heap.ts";
import type { LaneWindow } from "./lane-window.ts";

/** Lanes that an explanation looks at. */
const lookedMax = 10_000;

export class FairOrder {
  readonly #windows: IndexedHeap<LaneWindow> = new IndexedHeap();
  #presentTag = 0;
  #plainEndTag = 0;
  #period = 1;
  /** The sum for all lanes in the order. */
  weight = 0;

  get size(): number {
    return this.#windows.size;
  }

  enter(window: LaneWindow, hasPlain: boolean): void {
    if (this.size === 0 && !hasPlain) this.#beginPeriod();
    window.dueMs = startTag(this.#presentTag, this.#endTagOf(window));
    this.#windows.push(window);
    this.weight += window.lane.policy.weight;
  }

  /** The weight of the lane is still that with which it entered. */
  leave(window: LaneWindow): void {
    this.#windows.remove(window);
    this.weight -= window.lane.policy.weight;
  }

  /** The window whose turn it is; undefined when it is the turn of tasks without a lane, or there is none. */
  next(hasPlain: boolean): LaneWindow | undefined {
    const window = this.#windows.peek();
    if (window === undefined || !hasPlain) return window;
    return this.#plainStart <= window.dueMs ? undefined : window;
  }

  /**
   * About how many tasks of other lanes have their turn before the task that is behind so many of its own window, or of
   * the tasks without a lane. Looks at the first lanes only.
   */
  turnsBefore(
    own: LaneWindow | undefined,
    { older, plain }: { readonly older: number; readonly plain: number },
  ): { readonly turns: number; readonly isAtLeast: boolean } {
    const windows = this.#windows.values();
    const start = own === undefined ? this.#plainStart : own.dueMs;
    const tag = start + older * (own === undefined ? 1 : stepOf(own));
    let turns = own === undefined ? 0 : turnsUpTo(tag - this.#plainStart, 1, plain);
    for (const window of windows.slice(0, lookedMax)) {
      if (window !== own) turns += turnsUpTo(tag - window.dueMs, stepOf(window), window.ready);
    }
    return { turns, isAtLeast: windows.length > lookedMax };
  }

  /** Windows whose next tasks have to be read, the one whose turn it is first. */
  unread(max: number): LaneWindow[] {
    const found: LaneWindow[] = [];
    for (const window of this.#windows.values()) {
      if (found.length === max) break;
      if (window.headSeq === undefined) found.push(window);
    }
    return found;
  }

  served(window: LaneWindow, cost: number): void {
    this.#presentTag = window.dueMs;
    window.endTag = endTag(window.dueMs, { cost, weight: window.lane.policy.weight });
    window.period = this.#period;
  }

  servedPlain(cost: number): void {
    this.#presentTag = this.#plainStart;
    this.#plainEndTag = endTag(this.#presentTag, { cost, weight: 1 });
  }

  /** Whether the window owes nothing: a new window would get the same turn. */
  owesNothing(window: LaneWindow): boolean {
    return this.size === 0 || this.#endTagOf(window) <= this.#presentTag;
  }

  get #plainStart(): number {
    return startTag(this.#presentTag, this.#plainEndTag);
  }

  #endTagOf({ endTag: end, period }: LaneWindow): number {
    return period === this.#period ? end : 0;
  }

  #beginPeriod(): void {
    this.#period += 1;
    this.#presentTag = 0;
    this.#plainEndTag = 0;
  }
}

/** How far a task moves its lane, about: tasks behind the next one may have other costs. */
function stepOf({ headCost, lane }: LaneWindow): number {
  return headCost / lane.policy.weight;
}

function turnsUpTo(distance: number, step: number, ready: number): number {
  return distance <= 0 ? 0 : Math.min(ready, Math.ceil(distance / step));
}
