/**
 * Hands out ready tasks: highest priority first over everything that was asked for, then the one
 * that has been ready longest. Claims that find nothing wait in line and are served, in order, in the
 * same turn in which work becomes ready; like everybody they hear of it when it is durable. A tenant
 * never has more leases than its quota says: its claims get what is left, and wait for leases to end.
 */
import assert from "node:assert/strict";
import { type Commit, type Op, remove } from "@codeq/engine";
import { claim, queueOf, type Task, type TaskId, type TenantId, type WorkerId } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import type { MaybePromise } from "../maybe-promise.ts";
import { endOf, idOf, numberOf, pendingPrefix, sortable } from "../store/keys.ts";
import { addChange } from "../store/keys-of.ts";
import type { QueueStore } from "../store/queue-store.ts";
import { type ClaimWaiter, ClaimWaiters } from "./claim-waiters.ts";
import type { MemoryIndex } from "./memory-index.ts";
import { QueueState, type Queues, type TenantState } from "./queue-state.ts";
import type { TenantRoom } from "./tenant-room.ts";
import type { ToldChanges } from "./told-changes.ts";

export interface ClaimRequest {
  readonly tenantId: TenantId;
  readonly workerId: WorkerId;
  /** Undefined for every command of the tenant. */
  readonly commands: readonly string[] | undefined;
  readonly leaseMs: number;
  readonly count: number;
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
}

export interface ClaimedTask {
  readonly task: Task;
  readonly payload: string;
}

interface Claimed {
  readonly tasks: readonly ClaimedTask[];
  readonly commit: Commit;
}

type Waiter = ClaimWaiter<ClaimRequest, Claimed>;

interface Pick {
  readonly queue: QueueState;
  readonly priority: number;
}

const priorityMax = 9;
/** How much more is read when a window runs low. */
const refillEntries = 4096;
const refillBelow = 1024;
/** Payloads of one claim together, so that an answer stays of a size that clients can take. */
const claimBytesMax = 3 * 1024 * 1024;

export class Claims {
  readonly waiters: ClaimWaiters<ClaimRequest, Claimed>;
  readonly #clock: Clock;
  readonly #store: QueueStore;
  readonly #queues: Queues;
  readonly #index: MemoryIndex;
  readonly #room: TenantRoom;
  readonly #told: ToldChanges;
  /** Changes when memory is rebuilt, so that a scan that began before is not mixed into it. */
  #generation = 0;

  constructor(parts: {
    clock: Clock;
    store: QueueStore;
    queues: Queues;
    index: MemoryIndex;
    room: TenantRoom;
    told: ToldChanges;
  }) {
    this.#clock = parts.clock;
    this.#store = parts.store;
    this.#queues = parts.queues;
    this.#index = parts.index;
    this.#room = parts.room;
    this.#told = parts.told;
    this.waiters = new ClaimWaiters(parts.clock);
  }

  /** Up to `count` tasks, as soon as there is one; none when the wait is over. */
  claim(request: ClaimRequest): MaybePromise<readonly ClaimedTask[]> {
    this.#store.engine.assertWritable();
    const claimed = this.#claimNow(request);
    if (claimed instanceof Promise) {
      return claimed.then(() => (request.signal?.aborted ? [] : this.claim(request)));
    }
    if (claimed !== undefined) return whenDurable(claimed);
    return request.waitMs > 0 ? this.#wait(request).then(whenDurable) : [];
  }

  /** Work may have become ready in the queue: serves whoever waits for it. */
  serve(queue: QueueState): void {
    if (queue.tenant.isHeldBack) this.serveHeldBack(queue);
    else this.#serveFrom(queue);
  }

  /** A lease may have ended: serves those of the tenant who were held back for lack of one. */
  serveHeldBack({ tenant, tenantId }: QueueState): void {
    if (!tenant.isHeldBack || this.#room.leases(tenantId) === 0) return;
    tenant.isHeldBack = false;
    this.#serveFrom(tenant);
  }

  #serveFrom(work: QueueState | TenantState): void {
    for (let waiter = this.#next(work); waiter !== undefined; waiter = this.#next(work)) {
      const claimed = this.#claimNow(waiter.request);
      if (claimed instanceof Promise) {
        // When reading fails, whoever asks next meets the same failure and reports it.
        claimed.then(
          () => this.#serveFrom(work),
          () => {},
        );
        return;
      }
      if (claimed === undefined) return;
      waiter.finish(claimed);
    }
  }

  /** Who has waited longest for work of the queue, or of all queues of a tenant, while there is some. */
  #next(work: QueueState | TenantState): Waiter | undefined {
    if (work instanceof QueueState) {
      return work.readyTotal > 0 ? this.waiters.next(work.tenant, work) : undefined;
    }
    let oldest: Waiter | undefined;
    for (const queue of work.queues.values()) {
      const waiter = this.#next(queue);
      if (waiter !== undefined && (oldest === undefined || waiter.ticket < oldest.ticket)) {
        oldest = waiter;
      }
    }
    return oldest;
  }

  /** Memory is about to be rebuilt: what was read before is not mixed into it. */
  restart(): void {
    this.#generation += 1;
    this.waiters.finishAll();
  }

  #wait(request: ClaimRequest): Promise<Claimed | undefined> {
    return this.waiters.wait({
      request,
      tenant: this.#queues.tenant(request.tenantId),
      queues: request.commands?.map((command) =>
        this.#queues.queue(request.tenantId, queueOf(command)),
      ),
      waitMs: request.waitMs,
      signal: request.signal,
    });
  }

  /** What there is to claim now; a promise when a part of it has to be read from disk first. */
  #claimNow(request: ClaimRequest): Claimed | Promise<void> | undefined {
    if (this.#store.engine.state !== "open") return undefined;
    const count = Math.min(request.count, this.#room.leases(request.tenantId));
    if (count === 0) {
      this.#queues.tenant(request.tenantId).isHeldBack = true;
      return undefined;
    }
    const queues = this.#requested(request);
    const ops: Op[] = [];
    const tasks: ClaimedTask[] = [];
    let bytes = 0;
    while (tasks.length < count && bytes < claimBytesMax) {
      const pick = this.#pick(queues);
      if (pick === undefined) break;
      if (pick.queue.window(pick.priority).size === 0) {
        const refill = this.#refill(pick.queue, pick.priority);
        if (tasks.length === 0) return refill;
        break;
      }
      const claimed = this.#claimFirst(pick, request, ops);
      if (claimed === undefined) continue;
      tasks.push(claimed);
      bytes += claimed.payload.length;
    }
    if (tasks.length === 0) return undefined;
    for (const { task } of tasks) this.#store.keep(task);
    const commit = this.#store.engine.commit(ops);
    this.#told.claimed(tasks, commit.done);
    return { tasks, commit };
  }

  /** Claims the oldest task of the window, unless it turns out to be somewhere else by now. */
  #claimFirst(pick: Pick, request: ClaimRequest, ops: Op[]): ClaimedTask | undefined {
    const before = this.#takeReady(pick);
    const outcome = before && claim(before, request, this.#clock.nowMs());
    if (before === undefined || !outcome?.ok) return undefined;
    addChange(ops, before, outcome.value);
    this.#index.leave(before);
    this.#index.enter(outcome.value);
    return { task: outcome.value, payload: this.#store.payload(before) };
  }

  #requested(request: ClaimRequest): readonly QueueState[] {
    const { tenantId, commands } = request;
    if (commands === undefined) return [...this.#queues.ofTenant(tenantId)];
    const queues: QueueState[] = [];
    for (const command of commands) {
      const queue = this.#queues.find(tenantId, queueOf(command));
      if (queue !== undefined) queues.push(queue);
    }
    return queues;
  }

  /** The queue and priority whose oldest task comes first; its window may have to be read. */
  #pick(queues: readonly QueueState[]): Pick | undefined {
    for (let priority = priorityMax; priority >= 0; priority--) {
      let best: QueueState | undefined;
      let bestSeq = Number.POSITIVE_INFINITY;
      for (const queue of queues) {
        if (queue.ready(priority) === 0) continue;
        const seq = queue.window(priority).headSeq;
        // What is not in memory may be older than everything that is.
        if (seq === undefined) return { queue, priority };
        if (seq < bestSeq) {
          best = queue;
          bestSeq = seq;
        }
      }
      if (best !== undefined) return { queue: best, priority };
    }
    return undefined;
  }

  /** The oldest task of the window, unless the record says that it is somewhere else by now. */
  #takeReady({ queue, priority }: Pick): Task | undefined {
    const taken = this.#queues.take(queue, priority);
    const window = queue.window(priority);
    if (window.size < refillBelow && queue.ready(priority) > window.size + 1) {
      // Ahead of need: a claim that needs it reads again, and reports when that fails.
      this.#refill(queue, priority).catch(() => {});
    }
    if (taken === undefined) return undefined;
    const task = this.#store.task(taken.id);
    if (task === undefined) this.#setAside({ queue, priority }, taken);
    return task?.place.in === "ready" && task.place.seq === taken.seq ? task : undefined;
  }

  /** A record that cannot be read must not be offered again and again; the store keeps its bytes. */
  #setAside({ queue, priority }: Pick, entry: { seq: number; id: TaskId }): void {
    const key = `${pendingPrefix(queue.prefix, priority)}${sortable(entry.seq)}/${entry.id}`;
    this.#store.engine.commit([remove(key)]);
    queue.addReady(priority, -1);
  }

  #refill(queue: QueueState, priority: number): Promise<void> {
    const running = queue.refills[priority];
    if (running !== undefined) return running;
    const refill = this.#readAhead(queue, priority).finally(() => {
      queue.refills[priority] = undefined;
    });
    queue.refills[priority] = refill;
    return refill;
  }

  async #readAhead(queue: QueueState, priority: number): Promise<void> {
    const generation = this.#generation;
    const window = queue.window(priority);
    const newest = window.beginRefill();
    const prefix = pendingPrefix(queue.prefix, priority);
    // The exact count keeps the scan from walking on over deleted keys behind the last live one.
    const onDisk = queue.ready(priority) - window.size;
    const limit = Math.min(refillEntries, this.#queues.refillRoom, onDisk);
    const range = { after: `${prefix}${sortable(window.coveredTo)}/~`, before: endOf(prefix) };
    const keys = await this.#store.engine.scanKeys(range, limit);
    const found = keys.map((key) => ({ seq: numberOf(key), id: idOf(key) as TaskId }));
    await this.#store.readAhead(found.map(({ id }) => id));
    if (generation !== this.#generation) return;
    const last = found.at(-1);
    assert(last !== undefined, `${queue.prefix} counts ${onDisk} ready tasks that are not there`);
    const reached = found.length < onDisk ? last.seq : newest;
    window.endRefill(found, reached);
    this.#queues.windowEntries += found.length;
  }
}

function whenDurable(claimed: Claimed | undefined): MaybePromise<readonly ClaimedTask[]> {
  return claimed === undefined ? [] : claimed.commit.done.then(() => claimed.tasks);
}
