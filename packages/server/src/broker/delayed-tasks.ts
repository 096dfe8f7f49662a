/**
 * The delayed tasks that are due soonest, in memory; those further out stay on disk.
 *
 * For every queue there is a position in its delayed index up to which all tasks are in memory. A
 * task beyond it is only on disk. When the time of that position comes, the next stretch is read.
 */
import type { Engine } from "@codeq/engine";
import type { TaskId } from "@codeq/queue";
import { delayedPrefix, endOf, idOf, numberOf, sortable } from "../store/keys.ts";
import { type HeapItem, IndexedHeap } from "./indexed-heap.ts";
import { everything, type QueueState } from "./queue-state.ts";

/** A task that becomes ready, or, without an id, a stretch of the index that has to be read. */
export interface DelayedItem extends HeapItem {
  readonly queue: QueueState;
  readonly id: TaskId | undefined;
}

const stretchTasks = 2000;

/** The reading of one queue: when it happens, and what arrived while it did. */
interface Reading {
  readonly item: DelayedItem;
  arrived: { readonly dueMs: number; readonly id: TaskId }[] | undefined;
}

export class DelayedTasks {
  /** Called when something is due earlier than everything else; the time is on the wall clock. */
  onDue: (wallMs: number) => void = () => {};
  readonly #engine: Engine;
  readonly #entriesMax: number;
  readonly #byId: Map<TaskId, DelayedItem> = new Map();
  readonly #readings: Map<QueueState, Reading> = new Map();
  #heap: IndexedHeap<DelayedItem> = new IndexedHeap();

  constructor(engine: Engine, entriesMax: number) {
    this.#engine = engine;
    this.#entriesMax = entriesMax;
  }

  get size(): number {
    return this.#byId.size;
  }

  add(queue: QueueState, dueMs: number, id: TaskId): void {
    const reading = this.#readings.get(queue);
    if (reading?.arrived !== undefined) {
      reading.arrived.push({ dueMs, id });
      return;
    }
    if (this.#byId.size >= this.#entriesMax) this.#shrink(queue);
    if (positionOf(dueMs, id) > queue.delayedCoveredTo) return;
    this.#push({ queue, id, dueMs, heapIndex: -1 });
  }

  remove(id: TaskId): void {
    const item = this.#byId.get(id);
    if (item !== undefined) this.drop(item);
  }

  /** Takes an item out of memory, also one that is not the newest of its task. */
  drop(item: DelayedItem): void {
    if (item.id !== undefined && this.#byId.get(item.id) === item) this.#byId.delete(item.id);
    this.#heap.remove(item);
  }

  first(): DelayedItem | undefined {
    return this.#heap.peek();
  }

  /** Starts with nothing of the queue in memory; its first stretch is read at once. */
  recover(queue: QueueState): void {
    queue.delayedCoveredTo = "";
    this.#readAt(queue, 0);
  }

  /** Reads the stretch that the item stands for. */
  async readStretch(item: DelayedItem): Promise<void> {
    this.#heap.remove(item);
    const { queue } = item;
    const reading: Reading = { item, arrived: [] };
    this.#readings.set(queue, reading);
    const prefix = delayedPrefix(queue.prefix);
    const range = { after: prefix + queue.delayedCoveredTo, before: endOf(prefix) };
    const entries = await this.#engine.scan(range, stretchTasks);
    if (this.#readings.get(queue) !== reading) return;
    this.#readings.delete(queue);
    const last = entries.length === stretchTasks ? entries.at(-1)?.[0] : undefined;
    queue.delayedCoveredTo = last?.slice(prefix.length) ?? everything;
    for (const [key] of entries)
      this.#push({ queue, id: idOf(key), dueMs: numberOf(key), heapIndex: -1 });
    if (last !== undefined) this.#readAt(queue, numberOf(last));
    for (const { dueMs, id } of reading.arrived ?? []) this.add(queue, dueMs, id);
  }

  clear(): void {
    this.#byId.clear();
    this.#readings.clear();
    this.#heap = new IndexedHeap();
  }

  /** Plans the next reading of the queue, or moves it forward. */
  #readAt(queue: QueueState, dueMs: number): void {
    const planned = this.#readings.get(queue);
    if (planned !== undefined) this.#heap.remove(planned.item);
    const item: DelayedItem = { queue, id: undefined, dueMs, heapIndex: -1 };
    this.#readings.set(queue, { item, arrived: undefined });
    this.#push(item);
  }

  #push(item: DelayedItem): void {
    if (item.id !== undefined) {
      this.remove(item.id);
      this.#byId.set(item.id, item);
    }
    this.#heap.push(item);
    if (item.heapIndex === 0) this.onDue(item.dueMs);
  }

  /** Gives the later half of the queue's tasks back to the disk. */
  #shrink(queue: QueueState): void {
    const own = [...this.#byId.values()]
      .filter((item) => item.queue === queue)
      .map((item) => ({ item, position: positionOf(item.dueMs, item.id as TaskId) }))
      .sort((a, b) => (a.position < b.position ? -1 : 1));
    const kept = own.length >>> 1;
    const boundary = own[kept];
    if (boundary === undefined) return;
    for (const { item } of own.slice(kept + 1)) this.drop(item);
    queue.delayedCoveredTo = boundary.position;
    this.#readAt(queue, boundary.item.dueMs);
  }
}

/** A place in the delayed index of a queue, in its order. */
function positionOf(dueMs: number, id: TaskId): string {
  return `${sortable(dueMs)}/${id}`;
}
