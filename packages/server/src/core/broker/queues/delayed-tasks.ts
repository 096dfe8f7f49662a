/**
 * The delayed tasks that are due soonest, in memory; those further out stay on disk.
 *
 * For every queue there is a position in its delayed index up to which all tasks are in memory. A
 * task beyond it is only on disk. When the time of that position comes, and every task in memory up
 * to that time has been taken, the next stretch is read. So every reading makes progress.
 */
import type { TaskId } from "@codeq/queue";
import { type HeapItem, IndexedHeap } from "../../indexed-heap.ts";
import type { Position, Store } from "../../store/store.ts";
import { everything, type QueueState } from "./queue-state.ts";

/** A task that becomes ready, or, without an id, a stretch of the index that has to be read. */
export interface DelayedItem extends HeapItem {
  readonly queue: QueueState;
  readonly id: TaskId | undefined;
}

const stretchTasks = 2000;

/** The reading of one queue: when it happens, and which tasks arrived meanwhile. */
interface Reading {
  readonly item: DelayedItem;
  arrived: { readonly dueMs: number; readonly id: TaskId }[] | undefined;
}

export class DelayedTasks {
  /** Called with the time, on the wall clock, of an item that is due earlier than all others. */
  onDue: (wallMs: number) => void = () => {};
  readonly #store: Store;
  readonly #entriesMax: number;
  readonly #byId: Map<TaskId, DelayedItem> = new Map();
  readonly #readings: Map<QueueState, Reading> = new Map();
  #tasks: IndexedHeap<DelayedItem> = new IndexedHeap();
  #stretches: IndexedHeap<DelayedItem> = new IndexedHeap();

  constructor(store: Store, entriesMax: number) {
    this.#store = store;
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
    if (isBehind({ number: dueMs, id }, queue.delayedCoveredTo)) return;
    this.#push({ queue, id, dueMs, heapIndex: -1 });
    if (this.#byId.size > this.#entriesMax) this.#shrink();
  }

  remove(id: TaskId): void {
    const item = this.#byId.get(id);
    if (item !== undefined) this.drop(item);
  }

  /** Takes an item out of memory, also when it is not the newest item of its task. */
  drop(item: DelayedItem): void {
    if (item.id !== undefined && this.#byId.get(item.id) === item) this.#byId.delete(item.id);
    this.#tasks.remove(item);
  }

  first(): DelayedItem | undefined {
    const task = this.#tasks.peek();
    const stretch = this.#stretches.peek();
    if (task === undefined || stretch === undefined) return task ?? stretch;
    return task.dueMs <= stretch.dueMs ? task : stretch;
  }

  /** Starts with nothing of the queue in memory; its first stretch is read at once. */
  recover(queue: QueueState): void {
    queue.delayedCoveredTo = undefined;
    this.#readAt(queue, 0);
  }

  /** Reads the stretch that the item stands for. */
  async readStretch(item: DelayedItem): Promise<void> {
    this.#stretches.remove(item);
    const { queue } = item;
    const reading: Reading = { item, arrived: [] };
    this.#readings.set(queue, reading);
    if (this.#byId.size > this.#entriesMax >>> 1) this.#shrink();
    const limit = Math.max(1, Math.min(stretchTasks, this.#entriesMax - this.#byId.size));
    try {
      const found = await this.#store.delayedAfter(queue, queue.delayedCoveredTo, limit);
      if (this.#readings.get(queue) !== reading) return;
      const last = found.length === limit ? found.at(-1) : undefined;
      queue.delayedCoveredTo = last ?? everything;
      for (const { number: dueMs, id } of found) this.#push({ queue, id, dueMs, heapIndex: -1 });
      this.#endReading(reading, last?.number);
    } catch (error) {
      if (this.#readings.get(queue) === reading) this.#endReading(reading, item.dueMs);
      throw error;
    }
  }

  clear(): void {
    this.#byId.clear();
    this.#readings.clear();
    this.#tasks = new IndexedHeap();
    this.#stretches = new IndexedHeap();
  }

  /** Plans the next reading, if there is more, and adds what arrived during this one. */
  #endReading({ item, arrived }: Reading, nextMs: number | undefined): void {
    this.#readings.delete(item.queue);
    if (nextMs !== undefined) this.#readAt(item.queue, nextMs);
    for (const { dueMs, id } of arrived ?? []) this.add(item.queue, dueMs, id);
  }

  /** Plans the next reading of the queue, or moves it forward. */
  #readAt(queue: QueueState, dueMs: number): void {
    const planned = this.#readings.get(queue);
    if (planned !== undefined) this.#stretches.remove(planned.item);
    const item: DelayedItem = { queue, id: undefined, dueMs, heapIndex: -1 };
    this.#readings.set(queue, { item, arrived: undefined });
    this.#stretches.push(item);
    this.#announce(item);
  }

  #push(item: DelayedItem & { readonly id: TaskId }): void {
    this.remove(item.id);
    this.#byId.set(item.id, item);
    this.#tasks.push(item);
    this.#announce(item);
  }

  #announce(item: DelayedItem): void {
    if (this.first() === item) this.onDue(item.dueMs);
  }

  /** Drops the tasks that are due last from memory, over all queues; they stay on disk. */
  #shrink(): void {
    const items = [...this.#byId.values()].sort((a, b) => a.dueMs - b.dueMs);
    const cut = new Set<QueueState>();
    for (const item of items.slice(this.#entriesMax >>> 1)) {
      const { queue, dueMs } = item;
      // A reading under way sets the covered position of its queue when it ends.
      if (this.#readings.get(queue)?.arrived !== undefined) continue;
      this.drop(item);
      if (cut.has(queue)) continue;
      cut.add(queue);
      queue.delayedCoveredTo = { number: dueMs, id: "" as TaskId };
      this.#readAt(queue, dueMs);
    }
  }
}

/** Whether a task comes after a position in the delayed index of its queue. */
function isBehind(task: Position, position: Position | undefined): boolean {
  if (position === undefined || task.number > position.number) return true;
  return task.number === position.number && task.id > position.id;
}
