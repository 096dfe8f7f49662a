/**
 * The leases of all tasks that are in progress, ordered by when they end. Ends are measured with the
 * monotonic clock: a step of the wall clock neither shortens nor prolongs a lease.
 */
import type { Task, TaskId, WorkerId } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import { type HeapItem, IndexedHeap } from "./indexed-heap.ts";

export interface Lease extends HeapItem {
  readonly id: TaskId;
  readonly workerId: WorkerId;
  /** The end as users see it, on the wall clock. */
  untilMs: number;
  /** When the record on disk last got the end, on the monotonic clock. */
  writtenMs: number;
}

export class Leases {
  /** Called when a lease ends earlier than every other. */
  onDue: (monotonicMs: number) => void = () => {};
  readonly #clock: Clock;
  readonly #byId: Map<TaskId, Lease> = new Map();
  #heap: IndexedHeap<Lease> = new IndexedHeap();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#byId.size;
  }

  get(id: TaskId): Lease | undefined {
    return this.#byId.get(id);
  }

  /** Starts the lease that the record tells of; `leastMs` is the least it has from now on. */
  add(task: Task, leastMs: number): void {
    if (task.place.in !== "leased") return;
    const nowMs = this.#clock.monotonicMs();
    const { workerId, untilMs, leaseMs } = task.place;
    // A wall clock that was set back while the server was down must not prolong the lease.
    const mostMs = Math.max(leaseMs, leastMs);
    const leftMs = Math.min(Math.max(untilMs - this.#clock.nowMs(), leastMs), mostMs);
    const lease: Lease = {
      id: task.id,
      workerId,
      untilMs: this.#clock.nowMs() + leftMs,
      writtenMs: nowMs,
      dueMs: nowMs + leftMs,
      heapIndex: -1,
    };
    this.#byId.set(task.id, lease);
    this.#heap.push(lease);
    this.#announce(lease);
  }

  extend(lease: Lease, leaseMs: number): void {
    lease.untilMs = this.#clock.nowMs() + leaseMs;
    lease.dueMs = this.#clock.monotonicMs() + leaseMs;
    this.#heap.update(lease);
    this.#announce(lease);
  }

  remove(id: TaskId): void {
    const lease = this.#byId.get(id);
    if (lease === undefined) return;
    this.#byId.delete(id);
    this.#heap.remove(lease);
  }

  /** The lease that ends first. */
  first(): Lease | undefined {
    return this.#heap.peek();
  }

  clear(): void {
    this.#byId.clear();
    this.#heap = new IndexedHeap();
  }

  #announce(lease: Lease): void {
    if (lease.heapIndex === 0) this.onDue(lease.dueMs);
  }
}
