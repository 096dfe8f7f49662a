/**
 * Does something to tasks whose moment has come, in the order of an index of moments: a step at a time, and
 * without looking twice at what stands before, which may be full of deleted keys.
 */
import type { TaskId } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import type { MomentIndex, Position, Store } from "../store/store.ts";
import type { Job } from "./ticker.ts";

export interface DueSweepParts {
  readonly name: string;
  readonly store: Store;
  readonly clock: Clock;
  readonly batchMax: number;
  /** Tasks that are due within one step are handled together, because each look at the index costs. */
  readonly stepMs: number;
  readonly index: MomentIndex;
  readonly act: (due: readonly Position[], nowMs: number) => Promise<void>;
}

export class DueSweep implements Job {
  readonly name: string;
  readonly #parts: DueSweepParts;
  /** The earliest time at which something may be due, on the wall clock. */
  #nextMs = 0;
  /** What stands up to here in the index has been looked at. */
  #lookedTo: Position | undefined;
  /** The earliest moment that was planned since the last scan began. */
  #plannedMs = Number.POSITIVE_INFINITY;
  #beginnings = 0;

  constructor(parts: DueSweepParts) {
    this.name = parts.name;
    this.#parts = parts;
  }

  /** A task is due at this time; true when that is earlier than all others. */
  plan(dueMs: number): boolean {
    this.#plannedMs = Math.min(this.#plannedMs, dueMs);
    const position = this.#lookedTo;
    if (position !== undefined && dueMs <= position.number) {
      this.#lookedTo = { number: dueMs, id: "" as TaskId };
    }
    const { stepMs } = this.#parts;
    const nextMs = Math.ceil(dueMs / stepMs) * stepMs;
    if (nextMs >= this.#nextMs) return false;
    this.#nextMs = nextMs;
    return true;
  }

  /** Changes were undone, so tasks may be due again that were passed by: looks at all of them. */
  startOver(): void {
    this.#beginnings += 1;
    this.#lookedTo = undefined;
    this.#nextMs = 0;
  }

  nextMs(): number | undefined {
    if (this.#nextMs === Number.POSITIVE_INFINITY) return undefined;
    const { clock } = this.#parts;
    return clock.monotonicMs() + this.#nextMs - clock.nowMs();
  }

  async runOnce(): Promise<void> {
    const { store, clock, batchMax } = this.#parts;
    const nowMs = clock.nowMs();
    store.assertDeletable();
    // What is planned while the scan runs lowers this again.
    this.#nextMs = Number.POSITIVE_INFINITY;
    this.#plannedMs = Number.POSITIVE_INFINITY;
    const lookedFrom = this.#lookedTo;
    const beginning = this.#beginnings;
    const wanted = { after: lookedFrom, untilMs: nowMs, limit: batchMax };
    const due = await store.dueAfter(this.#parts.index, wanted);
    if (beginning !== this.#beginnings) return;
    const last = due.at(-1);
    // The scan may have passed the place of what was planned meanwhile.
    if (last !== undefined) {
      const number = this.#plannedMs;
      this.#lookedTo = number <= last.number ? { number, id: "" as TaskId } : last;
    }
    try {
      await this.#parts.act(due, nowMs);
      if (due.length === batchMax) this.#nextMs = Math.min(this.#nextMs, nowMs);
      else await this.#planNext();
    } catch (error) {
      // They are still there and have to be found again.
      const to = this.#lookedTo;
      if (lookedFrom === undefined || (to !== undefined && isBefore(lookedFrom, to))) {
        this.#lookedTo = lookedFrom;
      }
      this.#nextMs = Math.min(this.#nextMs, nowMs);
      throw error;
    }
  }

  /** Finds out when the next one is due, once for all that go together. */
  async #planNext(): Promise<void> {
    const { store, index } = this.#parts;
    const wanted = { after: this.#lookedTo, untilMs: Number.POSITIVE_INFINITY, limit: 1 };
    const [next] = await store.dueAfter(index, wanted);
    if (next !== undefined) this.plan(next.number);
  }
}

function isBefore(one: Position, other: Position): boolean {
  return one.number < other.number || (one.number === other.number && one.id < other.id);
}
