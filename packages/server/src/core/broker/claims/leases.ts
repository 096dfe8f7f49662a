/**
 * The leases of all tasks in progress, ordered by their end. Ends are measured with the monotonic clock: a
 * step of the wall clock neither shortens nor extends a lease.
 */
import type { Task, TaskId, TenantId, WorkerId } from "@codeq/queue";
import type { Clock } from "../../clock.ts";
import { type HeapItem, IndexedHeap } from "../../indexed-heap.ts";
import type { TenantLeases, WorkerLeases } from "../broker.ts";

export interface Lease extends HeapItem {
  readonly id: TaskId;
  readonly tenantId: TenantId;
  readonly workerId: WorkerId;
  /** When the lease began and was last extended, on the wall clock; a restart forgets extensions. */
  readonly sinceMs: number;
  seenMs: number;
  /** When the attempt began, on the monotonic clock. */
  startedMs: number;
  /** The end as users see it, on the wall clock. */
  untilMs: number;
  /** The length of the last grant or extension. */
  leaseMs: number;
  /** Its neighbours in the chain of its tenant. */
  previous: Lease | undefined;
  next: Lease | undefined;
}

/** The least time that a lease has left after the server did not run, whatever its length. */
const graceMsMin = 5000;

/** Leases that are looked at to answer which workers hold some; this takes some milliseconds. */
const reportedMax = 100_000;

/** Shorter stalls are common on a busy machine; a grace for each would keep leases from ending. */
const longStallMs = 1000;

/** A worker that could not reach the server gets the time of one heartbeat to come back. */
export function graceMsOf(leaseMs: number): number {
  return Math.max(Math.ceil(leaseMs / 3), graceMsMin);
}

export class Leases {
  /** Called with the end of a lease that ends before all others. */
  onDue: (monotonicMs: number) => void = () => {};
  readonly #clock: Clock;
  readonly #byId: Map<TaskId, Lease> = new Map();
  /** The newest lease of each tenant, which links to the others: a chain costs less than a set. */
  readonly #newest: Map<TenantId, Lease> = new Map();
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

  *ofTenant(tenantId: TenantId): Generator<Lease> {
    for (let each = this.#newest.get(tenantId); each !== undefined; each = each.next) yield each;
  }

  /** Which workers hold leases of a tenant. */
  workersOf(tenantId: TenantId): TenantLeases {
    const found = new Map<
      WorkerId,
      { -readonly [Name in keyof WorkerLeases]: WorkerLeases[Name] }
    >();
    let looked = 0;
    for (const { workerId, sinceMs, seenMs } of this.ofTenant(tenantId)) {
      if (looked === reportedMax) return { workers: [...found.values()], isPartial: true };
      looked += 1;
      const worker = found.get(workerId);
      if (worker === undefined) {
        found.set(workerId, { workerId, leases: 1, oldestMs: sinceMs, seenMs });
        continue;
      }
      worker.leases += 1;
      worker.oldestMs = Math.min(worker.oldestMs, sinceMs);
      worker.seenMs = Math.max(worker.seenMs, seenMs);
    }
    return { workers: [...found.values()], isPartial: false };
  }

  /** Starts the lease of a task; the lease lasts at least `leastMs` from now on. */
  add(task: Task, leastMs: number): void {
    if (task.place.in !== "leased") return;
    const nowMs = this.#clock.monotonicMs();
    const { workerId, untilMs, leaseMs, sinceMs } = task.place;
    // A wall clock that was set back while the server was down must not prolong the lease.
    const mostMs = Math.max(leaseMs, leastMs);
    const leftMs = Math.min(Math.max(untilMs - this.#clock.nowMs(), leastMs), mostMs);
    const lease: Lease = {
      id: task.id,
      tenantId: task.tenantId,
      workerId,
      sinceMs,
      seenMs: task.updatedMs,
      startedMs: nowMs - Math.max(this.#clock.nowMs() - sinceMs, 0),
      untilMs: this.#clock.nowMs() + leftMs,
      leaseMs,
      dueMs: nowMs + leftMs,
      heapIndex: -1,
      previous: undefined,
      next: this.#newest.get(task.tenantId),
    };
    this.#byId.set(task.id, lease);
    if (lease.next !== undefined) lease.next.previous = lease;
    this.#newest.set(task.tenantId, lease);
    this.#heap.push(lease);
    this.#announce(lease);
  }

  /** How long the attempt has run, without the time in which the server did not run, and how long its lease lasts. */
  timesOf(id: TaskId): { readonly ranMs: number; readonly leftMs: number } {
    const lease = this.#byId.get(id);
    if (lease === undefined) return { ranMs: 0, leftMs: 0 };
    const nowMs = this.#clock.monotonicMs();
    return { ranMs: nowMs - lease.startedMs, leftMs: lease.dueMs - nowMs };
  }

  /** Extends the lease, as the record says. */
  extend({ id, place }: Task): void {
    const lease = this.#byId.get(id);
    if (lease === undefined || place.in !== "leased") return;
    const { leaseMs } = place;
    lease.seenMs = this.#clock.nowMs();
    lease.untilMs = lease.seenMs + leaseMs;
    lease.leaseMs = leaseMs;
    lease.dueMs = this.#clock.monotonicMs() + leaseMs;
    this.#heap.update(lease);
    this.#announce(lease);
  }

  /**
   * Extends all leases by the time in which the server did not run. After a stall that may have cost workers
   * their connections, every lease has at least the grace of a restart.
   */
  prolong(stalledMs: number): void {
    const byMs = Math.ceil(stalledMs);
    // All leases move before the heap compares two of them.
    for (const lease of this.#byId.values()) shift(lease, byMs);
    const resumedMs = this.#clock.monotonicMs() - stalledMs + byMs;
    for (const lease of this.#byId.values()) {
      // This lease began after the stall, before the stall was noticed.
      if (lease.startedMs <= resumedMs) continue;
      shift(lease, -byMs);
      this.#heap.update(lease);
    }
    if (stalledMs >= longStallMs) this.giveGrace();
  }

  /** Gives every lease at least the grace of a restart. */
  giveGrace(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const lease of this.#byId.values()) {
      const missingMs = Math.ceil(nowMs + graceMsOf(lease.leaseMs) - lease.dueMs);
      if (missingMs <= 0) continue;
      moveEnd(lease, missingMs);
      this.#heap.update(lease);
    }
  }

  remove(id: TaskId): void {
    const lease = this.#byId.get(id);
    if (lease === undefined) return;
    this.#byId.delete(id);
    this.#unchain(lease);
    this.#heap.remove(lease);
  }

  /** The lease that ends first. */
  first(): Lease | undefined {
    return this.#heap.peek();
  }

  clear(): void {
    this.#byId.clear();
    this.#newest.clear();
    this.#heap = new IndexedHeap();
  }

  #unchain({ tenantId, previous, next }: Lease): void {
    if (next !== undefined) next.previous = previous;
    if (previous !== undefined) previous.next = next;
    else if (next !== undefined) this.#newest.set(tenantId, next);
    else this.#newest.delete(tenantId);
  }

  #announce(lease: Lease): void {
    if (lease.heapIndex === 0) this.onDue(lease.dueMs);
  }
}

function shift(lease: Lease, byMs: number): void {
  lease.startedMs += byMs;
  moveEnd(lease, byMs);
}

function moveEnd(lease: Lease, byMs: number): void {
  lease.dueMs += byMs;
  lease.untilMs += byMs;
}
