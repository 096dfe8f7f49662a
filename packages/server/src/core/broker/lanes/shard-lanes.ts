/** What the lanes of all queues of a shard share: the memory of their tasks, their timers, and a time to forget them. */
import type { Clock } from "../../clock.ts";
import { IndexedHeap } from "../../indexed-heap.ts";
import { writeOfLane } from "../../records/lane-record.ts";
import type { RecordWrite } from "../../store/store.ts";
import type { QueueState } from "../queues/queue-state.ts";
import type { Spender, Timed } from "./lane.ts";
import { LaneEntries } from "./lane-entries.ts";
import type { LaneWindow } from "./lane-window.ts";

/** Tasks of lanes in memory; 32 bytes each. */
const entriesMax = 1_048_576;
/** When half of the room is used, a lane gets no more than this; when all is used, no more than the least. */
const windowMax = 1024;
const windowMin = 16;
/** The first number of lanes at which idle lanes are removed; the next is twice the number that remains. */
const lanesMin = 16_384;
const noWrites: readonly RecordWrite[] = [];
/** While a tenant has as many lanes as it may have, they are looked through so often. */
const fullSweepMs = 1000;

export class ShardLanes {
  /** Called with the end of a timer that ends before all others, on the monotonic clock. */
  onDue: (monotonicMs: number) => void = () => {};
  /** Writes the removal of records. */
  forget: (removals: readonly RecordWrite[]) => void = () => {};
  entries: LaneEntries = new LaneEntries();
  /** No queue had lanes or a rate yet. */
  isUnused = true;
  /** Lanes and queues whose records are out of date. */
  #changed: Spender[] = [];
  readonly clock: Clock;
  readonly #queues: () => Iterable<QueueState>;
  #timers: IndexedHeap<Timed> = new IndexedHeap();
  #lanes = 0;
  #sweepAt = lanesMin;
  #sweptMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, queues: () => Iterable<QueueState>) {
    this.clock = clock;
    this.#queues = queues;
  }

  /** How many lanes are in memory. */
  get size(): number {
    return this.#lanes;
  }

  /** The record of what a lane or a queue has spent is out of date. */
  changed(spender: Spender): void {
    if (spender.allowance.isChanged) return;
    spender.allowance.isChanged = true;
    this.#changed.push(spender);
  }

  /** What has to be written with the next changes; nothing for most. */
  takeWrites(): readonly RecordWrite[] {
    if (this.#changed.length === 0) return noWrites;
    const writes: RecordWrite[] = [];
    for (const { allowance, queue, name } of this.#changed) {
      // A lane may have been forgotten in the meantime.
      if (!allowance.isChanged) continue;
      allowance.isChanged = false;
      allowance.hasRecord = true;
      const of = { tenantId: queue.tenantId, name: queue.name, lane: name };
      writes.push(writeOfLane(of, allowance, this.clock));
    }
    this.#changed = [];
    return writes;
  }

  /** A lane was made. */
  added(): void {
    this.#lanes += 1;
    if (this.#lanes < this.#sweepAt) return;
    this.#sweep();
  }

  #sweep(): void {
    this.#sweptMs = this.clock.monotonicMs();
    for (const { lanes } of this.#queues()) lanes?.sweep();
    this.#sweepAt = Math.max(lanesMin, this.#lanes * 2);
  }

  /** Makes room by forgetting lanes that do not matter any more, unless that was just done. */
  makeRoom(): void {
    if (this.clock.monotonicMs() - this.#sweptMs >= fullSweepMs) this.#sweep();
  }

  removed(): void {
    this.#lanes -= 1;
  }

  hasRoom({ size }: LaneWindow): boolean {
    const { size: used } = this.entries;
    if (used < entriesMax / 2 || size < windowMin) return true;
    return used < entriesMax && size < windowMax;
  }

  /** Wakes it at a time. */
  wait(timed: Timed, dueMs: number): void {
    timed.dueMs = dueMs;
    if (timed.heapIndex < 0) this.#timers.push(timed);
    else this.#timers.update(timed);
    if (this.#timers.peek() === timed) this.onDue(dueMs);
  }

  stop(timed: Timed): void {
    this.#timers.remove(timed);
  }

  get nextMs(): number | undefined {
    return this.#timers.peek()?.dueMs;
  }

  /** Wakes up to so many whose time has come; returns their queues. */
  wakeDue(max: number): ReadonlySet<QueueState> {
    const nowMs = this.clock.monotonicMs();
    const queues = new Set<QueueState>();
    for (let count = 0; count < max; count++) {
      const timed = this.#timers.peek();
      if (timed === undefined || timed.dueMs > nowMs) break;
      this.#timers.remove(timed);
      timed.wake();
      queues.add(timed.queue);
    }
    return queues;
  }

  clear(): void {
    this.entries = new LaneEntries();
    this.isUnused = true;
    this.#changed = [];
    this.#timers = new IndexedHeap();
    this.#lanes = 0;
    this.#sweepAt = lanesMin;
  }
}
