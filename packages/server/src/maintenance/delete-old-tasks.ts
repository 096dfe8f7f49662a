/** Deletes finished tasks whose retention has ended, with everything that belongs to them. */
import { isExpired, type Task, type TaskId } from "@codeq/queue";
import type { Broker } from "../broker/broker.ts";
import type { Clock } from "../clock.ts";
import type { SweepConfig } from "../config/settings.ts";
import type { Position } from "../store/store.ts";
import type { Job } from "./ticker.ts";

export class DeleteOldTasks implements Job {
  readonly name = "delete-old-tasks";
  readonly #broker: Broker;
  readonly #clock: Clock;
  readonly #batchMax: number;
  /** Those that have to go within one of these go together: to look for each by itself costs more. */
  readonly #stepMs: number;
  /** The earliest time at which a task may have to go, on the wall clock. */
  #nextMs = 0;
  /** What stands up to here in the index has been looked at; it may be full of deleted keys. */
  #lookedTo: Position | undefined;

  constructor(parts: { broker: Broker; clock: Clock; config: SweepConfig }) {
    this.#broker = parts.broker;
    this.#clock = parts.clock;
    this.#batchMax = parts.config.sweepBatchMax;
    this.#stepMs = parts.config.retentionSweepSeconds * 1000;
  }

  /** A task became terminal and has to go at this time; true when that is earlier than all others. */
  plan(expiresMs: number): boolean {
    const position = this.#lookedTo;
    if (position !== undefined && expiresMs <= position.number) {
      this.#lookedTo = { number: expiresMs, id: "" as TaskId };
    }
    const nextMs = Math.ceil(expiresMs / this.#stepMs) * this.#stepMs;
    if (nextMs >= this.#nextMs) return false;
    this.#nextMs = nextMs;
    return true;
  }

  nextMs(): number | undefined {
    if (this.#nextMs === Number.POSITIVE_INFINITY) return undefined;
    return this.#clock.monotonicMs() + this.#nextMs - this.#clock.nowMs();
  }

  async runOnce(): Promise<void> {
    const { store } = this.#broker;
    const nowMs = this.#clock.nowMs();
    store.assertDeletable();
    // What becomes terminal while the scan runs lowers this again.
    this.#nextMs = Number.POSITIVE_INFINITY;
    const lookedFrom = this.#lookedTo;
    const expired = await store.expiredAfter(lookedFrom, nowMs, this.#batchMax);
    const tasks: Task[] = [];
    for (const position of expired) {
      this.#lookedTo = position;
      const task = store.task(position.id);
      if (task !== undefined && isExpired(task, nowMs)) tasks.push(task);
    }
    try {
      await this.#broker.delete(tasks);
      if (expired.length === this.#batchMax) this.#nextMs = Math.min(this.#nextMs, nowMs);
      else await this.#planNext();
    } catch (error) {
      // They are still there and have to be found again.
      if (lookedFrom === undefined || lookedFrom.number <= (this.#lookedTo?.number ?? 0)) {
        this.#lookedTo = lookedFrom;
      }
      this.#nextMs = Math.min(this.#nextMs, nowMs);
      throw error;
    }
  }

  /** Finds out when the next one has to go, once for all that go together. */
  async #planNext(): Promise<void> {
    const { store } = this.#broker;
    const [next] = await store.expiredAfter(this.#lookedTo, Number.POSITIVE_INFINITY, 1);
    if (next !== undefined) this.plan(next.number);
  }
}
