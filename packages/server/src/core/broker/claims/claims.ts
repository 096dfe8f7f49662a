/**
 * Hands out ready tasks: highest priority first over all requested queues, then the task that has been ready
 * longest. Claims that find nothing wait and are served in order, in the event loop turn in which a task
 * becomes ready; they are answered when that is durable. A tenant never has more leases than its quota
 * allows: its claims get what is left, and wait for leases to end.
 */
import assert from "node:assert/strict";
import { FaultError } from "@codeq/engine";
import {
  type Change,
  changeOf,
  claim as claimTask,
  costOf,
  hasLapsed,
  queueOf,
  type TaskId,
  type TenantId,
} from "@codeq/queue";
import type { Clock } from "../../clock.ts";
import { ReadyOrder } from "../../ready-order.ts";
import type { Position, ReadyBucket, Store } from "../../store/store.ts";
import type { LanePosition, LaneWindow } from "../lanes/lane-window.ts";
import type { QueueLanes } from "../lanes/queue-lanes.ts";
import { QueueState, type Queues, type TenantState } from "../queues/queue-state.ts";
import type { ReadyWindow } from "../queues/ready-window.ts";
import type { TenantQuotas } from "../tenant-quotas.ts";
import type { ClaimedTask } from "../verbs.ts";
import type { Claim } from "./claim.ts";
import { WaitingClaims } from "./waiting-claims.ts";

interface Pick {
  readonly queue: QueueState;
  readonly priority: number;
  /** Undefined for tasks without a lane. */
  readonly lane: LaneWindow | undefined;
}

/** A window that is being filled from disk. */
interface Refill {
  readonly queue: QueueState;
  readonly window: ReadyWindow;
  readonly generation: number;
  /** Everything up to here will have been read when the read reaches the end. */
  readonly newest: number;
  readonly departures: number;
  /** How many tasks are on disk only. */
  readonly onDisk: number;
}

/** What a claim has got so far. */
interface Take {
  readonly claim: Claim;
  readonly nowMs: number;
  readonly changes: Change[];
  readonly tasks: ClaimedTask[];
  /** The size of the payloads. */
  bytes: number;
  /** Tasks that were ended instead, because no worker had begun them in time. */
  lapses: number;
}

/** How many entries are read when a window runs low, and when nothing of it is in memory yet. */
const refillEntries = 4096;
const firstRefillEntries = 128;
const refillBelow = 1024;
/** A claim for any queue reads the heads of so few queues one by one, and so few entries of each. */
const unreadQueuesMax = 64;
const unreadEntries = 1024;
/** For more queues, the heads of this number of queues are read together, with few entries of each. */
const neighboursMax = 1024;
const neighbourEntries = 16;
/** Refills under way that no claim waits for yet. */
const refillsAheadMax = 32;
/** All payloads of one claim together, so that clients can take the answer. */
const claimBytesMax = 3 * 1024 * 1024;
/** How many tasks past their time to live a claim ends before it waits until that is durable. */
const lapsesMax = 100;
/** How many entries of a lane are read at a time, and when. */
const laneEntries = 128;
const laneBelow = 32;
const nothing: readonly ClaimedTask[] = [];
const noQueues: readonly QueueState[] = [];

export interface ClaimsParts {
  readonly clock: Clock;
  readonly store: Store;
  readonly queues: Queues;
  readonly quotas: TenantQuotas;
  /** Applies the changes of a claim and answers the claim with the tasks. */
  readonly give: (changes: readonly Change[], claim: Claim, tasks: readonly ClaimedTask[]) => void;
  /** Ends a task that no worker began in time; resolves when that is durable. */
  readonly lapse: (id: TaskId) => Promise<void>;
}

export class Claims {
  readonly waiting: WaitingClaims;
  readonly #parts: ClaimsParts;
  /** Grows when memory is rebuilt, so that the results of an older scan are dropped. */
  #generation = 0;
  #refillsAhead = 0;

  constructor(parts: ClaimsParts) {
    this.#parts = parts;
    this.waiting = new WaitingClaims(parts.clock, parts.queues);
  }

  /** Answers with up to `count` tasks as soon as there is one, and with none when the wait is over. */
  claim(claim: Claim): void {
    // The caller may have gone before the claim, or while the disk was read.
    if (claim.isCancelled) {
      claim.durable(nothing);
      return;
    }
    const reading = this.#serve(claim);
    if (reading === true) return;
    if (reading !== false) {
      reading.then(
        () => this.claim(claim),
        (error: unknown) => claim.refused(asFault(error)),
      );
      return;
    }
    if (claim.waitMs > 0) this.waiting.wait(claim);
    else claim.durable(nothing);
  }

  /** The caller has gone: answers with no tasks, unless tasks are on their way already. */
  cancel(claim: Claim): void {
    claim.isCancelled = true;
    this.waiting.finish(claim);
  }

  /** Serves waiting claims, because tasks of the queue may have become ready. */
  serve(queue: QueueState): void {
    if (queue.tenant.isHeldBack) this.serveHeldBack(queue);
    else this.#serveFrom(queue);
  }

  /** Serves claims of the tenant that its lease quota held back, because a lease may have ended. */
  serveHeldBack({ tenant, tenantId }: QueueState): void {
    if (!tenant.isHeldBack || this.#parts.quotas.leasesLeft(tenantId) === 0) return;
    tenant.isHeldBack = false;
    this.#serveFrom(tenant);
  }

  #serveFrom(work: QueueState | TenantState): void {
    for (let claim = this.#next(work); claim !== undefined; claim = this.#next(work)) {
      const served = this.#serve(claim);
      if (served === false) return;
      if (served === true) continue;
      // The next claim meets the same failure and reports it.
      served.then(
        () => this.#serveFrom(work),
        () => {},
      );
      return;
    }
  }

  /** The claim that has waited longest for the queue, or for any queue of a tenant, if there is work. */
  #next(work: QueueState | TenantState): Claim | undefined {
    if (work instanceof QueueState)
      return work.topPriority >= 0 ? this.waiting.next(work) : undefined;
    let oldest: Claim | undefined;
    for (const queue of work.queues.values()) {
      const claim = this.#next(queue);
      if (claim !== undefined && (oldest === undefined || claim.ticket < oldest.ticket)) {
        oldest = claim;
      }
    }
    return oldest;
  }

  /** Ends all waits and drops the results of scans under way, because memory is about to be rebuilt. */
  restart(): void {
    this.#generation += 1;
    this.waiting.finishAll();
  }

  /** How many tasks the tenant may get now, or why it may get none. */
  allowance(tenantId: TenantId): number | "storage" | "lease_quota" {
    const { store, quotas } = this.#parts;
    if (store.state !== "open") return "storage";
    return quotas.leasesLeft(tenantId) || "lease_quota";
  }

  /** Serves the claim: whether there was a task, or a promise of what has to be read first. */
  #serve(claim: Claim): boolean | Promise<void> {
    // Ending a task whose time is over serves waiting claims, and the claim that met the task may be one of them.
    if (claim.isTaking) return false;
    const { queues } = this.#parts;
    const allowed = this.allowance(claim.tenantId);
    if (allowed === "storage") return false;
    const count = allowed === "lease_quota" ? 0 : Math.min(claim.counted, allowed);
    if (count === 0) {
      queues.tenant(claim.tenantId).isHeldBack = true;
      return false;
    }
    claim.isTaking = true;
    try {
      return this.#takeUpTo(count, claim);
    } finally {
      claim.isTaking = false;
    }
  }

  #takeUpTo(count: number, claim: Claim): boolean | Promise<void> {
    const requested = this.#requested(claim);
    const nowMs = this.#parts.clock.nowMs();
    const take: Take = { claim, nowMs, changes: [], tasks: [], bytes: 0, lapses: 0 };
    const { tasks, changes } = take;
    while (tasks.length < count && take.bytes < claimBytesMax) {
      const next = this.#takeNext(requested, take);
      if (next === "nothing") break;
      if (next === "more") continue;
      if (tasks.length === 0) return next;
      // The next claim meets the same failure and reports it.
      next.catch(() => {});
      break;
    }
    if (tasks.length === 0) return false;
    this.waiting.leave(claim);
    claim.isServed = true;
    try {
      this.#parts.give(changes, claim, tasks);
    } finally {
      if (this.#parts.queues.topics > 0) this.#countedAsLeases(tasks);
    }
    return true;
  }

  /** The tasks of the claim count as leased now, so their reservations end. */
  #countedAsLeases(tasks: readonly ClaimedTask[]): void {
    for (const { task } of tasks) {
      const queue = this.#parts.queues.find(task.tenantId, queueOf(task.command));
      if (queue?.isLimited) queue.reserve(-1);
    }
  }

  /** Takes one of the requested tasks; a promise has to be awaited before the next try. */
  #takeNext(requested: Requested, take: Take): "more" | "nothing" | Promise<void> {
    const pick = topOf(requested);
    if (pick === undefined) return "nothing";
    const { queue, priority, lane } = pick;
    if ((lane ?? queue.window(priority)).headSeq === undefined) {
      return this.#readHeads(requested, priority);
    }
    const taken =
      lane === undefined
        ? this.#takeReady(pick, take.nowMs)
        : this.#takeFromLane(queue, lane, take.nowMs);
    if (taken instanceof Promise) return this.#lapsed(taken, take);
    if (taken !== undefined) this.#lease(pick, taken, take);
    return "more";
  }

  /** Counts a task that was ended instead of being taken. */
  #lapsed(ending: Promise<void>, take: Take): "more" | Promise<void> {
    take.lapses += 1;
    if (take.lapses === lapsesMax) return ending;
    // The sweep ends tasks that could not be ended here.
    ending.catch(() => {});
    return "more";
  }

  #lease({ queue }: Pick, { task, payload }: ClaimedTask, take: Take): void {
    const outcome = claimTask(task, take.claim, take.nowMs);
    if (!outcome.ok) return;
    take.changes.push(changeOf(task, outcome.value, "claimed"));
    take.tasks.push({ task: outcome.value, payload });
    take.bytes += payload.length;
    // Reserved until the claim is applied, so that the claim does not exceed the limit of the topic.
    if (queue.isLimited) queue.reserve(1);
  }

  #requested({ tenantId, queues: names }: Claim): Requested {
    const { queues } = this.#parts;
    if (names === undefined) return queues.findTenant(tenantId)?.order ?? noQueues;
    if (names.length === 1) {
      const queue = queues.find(tenantId, names[0] as string);
      return queue === undefined ? noQueues : queue.alone;
    }
    const found: QueueState[] = [];
    for (const name of names) {
      const queue = queues.find(tenantId, name);
      if (queue !== undefined) found.push(queue);
    }
    return found;
  }

  /**
   * Takes the oldest task of the window; undefined when its record says that it is not ready any more. Ends the
   * task instead when its time to live is over.
   */
  #takeReady({ queue, priority }: Pick, nowMs: number): ClaimedTask | Promise<void> | undefined {
    const { queues, store } = this.#parts;
    const window = queue.window(priority);
    const { headId } = window;
    const task = headId && store.task(headId);
    if (task?.extras !== undefined && hasLapsed(task, nowMs)) return this.#parts.lapse(task.id);
    if (task !== undefined && queue.lanes?.takePlain(priority, costOf(task)) === false)
      return undefined;
    const taken = queues.take(queue, priority);
    const brought = window.bringNear();
    // Read ahead; tasks that are claimed before they were read are read one by one.
    if (brought.length > 0) store.readAhead(brought).catch(() => {});
    if (window.size < refillBelow && queue.plainReady(priority) > window.size + 1) {
      this.#readAhead(() => this.#refill(queue, priority, firstRefillEntries));
    }
    if (taken === undefined) return undefined;
    const isThere = task?.place.in === "ready" && task.place.seq === taken.number;
    if (task !== undefined && !isThere) return undefined;
    const payload = task && store.wholePayload(task);
    if (task === undefined || payload === undefined) {
      // A task that cannot be read must not be offered again and again.
      store.setAsideReady({ name: queue.name, tenantId: queue.tenantId, priority }, taken);
      queue.addReady(priority, -1);
      return undefined;
    }
    queue.addReady(priority, -1);
    return { task, payload };
  }

  /** The same for the oldest task of a lane whose turn it is. */
  #takeFromLane(
    queue: QueueState,
    window: LaneWindow,
    nowMs: number,
  ): ClaimedTask | Promise<void> | undefined {
    const { store } = this.#parts;
    const lanes = queue.lanes as QueueLanes;
    const head = window.head as LanePosition;
    const task = store.task(head.id);
    if (task?.extras !== undefined && hasLapsed(task, nowMs)) return this.#parts.lapse(task.id);
    if (!lanes.mayTake(head.cost)) return undefined;
    const { priority } = window;
    const payload = task && store.wholePayload(task);
    if (task === undefined || payload === undefined) {
      // A task that cannot be read must not be offered again and again.
      store.setAsideReady({ ...bucketOf(queue, priority), lane: window.lane.name }, head);
      lanes.taken(window);
      return undefined;
    }
    lanes.serve(window, head.cost);
    if (window.size < laneBelow && window.ready > window.size) {
      this.#readAhead(() => this.#readLane(queue, window, laneEntries));
    }
    return { task, payload };
  }

  #isReady({ id, number }: Position): boolean {
    const place = this.#parts.store.task(id)?.place;
    return place?.in === "ready" && place.seq === number;
  }

  /** Reads the heads of queues that may have the next task and have none in memory; the claim comes back then. */
  #readHeads(requested: Requested, priority: number): Promise<void> {
    const queues =
      requested instanceof ReadyOrder
        ? requested.equals(unreadQueuesMax)
        : requested.filter(
            (queue) => queue.topPriority === priority && queue.headSeq(priority) === undefined,
          );
    if (requested instanceof ReadyOrder && queues.length === unreadQueuesMax) {
      const reading = this.#readMany(requested, priority);
      if (reading !== undefined) return reading;
    }
    const entries = Math.min(firstRefillEntries, Math.ceil(unreadEntries / queues.length));
    const reading = queues.map((queue) => this.#readHead(queue, priority, entries));
    return Promise.all(reading).then(() => {});
  }

  /** Where it is the turn of a lane, several lanes are read together. */
  #readHead(queue: QueueState, priority: number, entries: number): Promise<unknown> {
    const { lanes } = queue;
    if (lanes?.next(priority) === undefined) return this.#refill(queue, priority, entries);
    const windows = lanes.unread(priority, unreadQueuesMax);
    return Promise.all(windows.map((window) => this.#readLane(queue, window, laneEntries)));
  }

  /** Reads before a window is empty, unless many others are being read. */
  #readAhead(read: () => Promise<void>): void {
    if (this.#refillsAhead >= refillsAheadMax) return;
    this.#refillsAhead += 1;
    const ended = (): void => {
      this.#refillsAhead -= 1;
    };
    // A claim that needs the tasks reads again and reports the failure.
    read().then(ended, ended);
  }

  #readLane(queue: QueueState, window: LaneWindow, entries: number): Promise<void> {
    window.reading ??= this.#readNextOfLane(queue, window, entries).finally(() => {
      window.reading = undefined;
    });
    return window.reading;
  }

  async #readNextOfLane(queue: QueueState, window: LaneWindow, entries: number): Promise<void> {
    const { store } = this.#parts;
    const generation = this.#generation;
    const newest = window.beginReading();
    const { moves, lane, priority } = window;
    const onDisk = window.ready - window.size;
    const limit = Math.min(entries, onDisk);
    const bucket = { ...bucketOf(queue, priority), lane: lane.name };
    const found = await store.readyAfter(bucket, window.coveredTo, limit);
    await store.readAhead(found.map(({ id }) => id));
    // Tasks that left or came back meanwhile may be missing; the next claim reads again.
    if (generation !== this.#generation || window.moves !== moves) return;
    const last = found.at(-1);
    assert(
      last !== undefined,
      `${queue.name} counts ${onDisk} ready tasks of the lane ${lane.name} that are not there`,
    );
    const positions = found.map((each) => ({ ...each, cost: this.#costOf(each.id) }));
    window.endReading(positions, found.length < onDisk ? last.number : newest);
    queue.lanes?.offer(lane);
  }

  /** A task that cannot be read is set aside when its turn comes. */
  #costOf(id: TaskId): number {
    const task = this.#parts.store.task(id);
    return task === undefined ? 1 : costOf(task);
  }

  /** `firstEntries` are read when nothing of the window was in memory yet. */
  #refill(queue: QueueState, priority: number, firstEntries: number): Promise<void> {
    const running = queue.refill(priority);
    if (running !== undefined) return running;
    const refill = this.#readNext(queue, priority, firstEntries).finally(() => {
      queue.setRefill(priority, undefined);
    });
    queue.setRefill(priority, refill);
    return refill;
  }

  /** Other claims for any queue wait for the same read; undefined when there are few queues to read. */
  #readMany(order: ReadyOrder<QueueState>, priority: number): Promise<void> | undefined {
    const tenant = order.first()?.tenant;
    if (tenant === undefined || tenant.reading !== undefined) return tenant?.reading;
    const unread = order.equals(Number.POSITIVE_INFINITY).filter(isUnread(priority));
    if (unread.length <= unreadQueuesMax) return undefined;
    tenant.reading = this.#readPieces(unread, priority).finally(() => {
      tenant.reading = undefined;
    });
    return tenant.reading;
  }

  /** Neighbours on disk are read together, one piece after another, so that other callers get their turns. */
  async #readPieces(unread: readonly QueueState[], priority: number): Promise<void> {
    // The order in which the keys of their tasks are sorted.
    const paths = unread.map((queue) => ({ queue, path: `${queue.name}/` }));
    paths.sort((a, b) => (a.path < b.path ? -1 : 1));
    const byName = paths.map(({ queue }) => queue);
    for (let at = 0; at < byName.length; at += neighboursMax) {
      const piece = byName.slice(at, at + neighboursMax).filter(isUnread(priority));
      await this.#readFirst(piece, priority);
    }
  }

  #readFirst(queues: readonly QueueState[], priority: number): Promise<void> {
    const refills = queues.map((queue) => this.#beginRefill(queue, priority));
    const buckets = queues.map((queue) => bucketOf(queue, priority));
    const reading = this.#parts.store
      .firstReady(buckets, neighbourEntries)
      .then((found) => {
        for (const [at, refill] of refills.entries()) this.#endRefill(refill, found[at] ?? []);
      })
      .finally(() => {
        for (const queue of queues) queue.setRefill(priority, undefined);
      });
    for (const queue of queues) queue.setRefill(priority, reading);
    return reading;
  }

  async #readNext(queue: QueueState, priority: number, firstEntries: number): Promise<void> {
    const { store, queues } = this.#parts;
    const refill = this.#beginRefill(queue, priority);
    const { window, onDisk } = refill;
    const isFirst = window.coveredTo === 0;
    const most = isFirst ? firstEntries : refillEntries;
    const limit = Math.min(most, queues.refillRoom, onDisk);
    const found = await store.readyAfter(bucketOf(queue, priority), window.coveredTo, limit);
    await store.readAhead(found.map(({ id }) => id));
    this.#endRefill(refill, found);
  }

  #beginRefill(queue: QueueState, priority: number): Refill {
    const window = queue.window(priority);
    return {
      queue,
      window,
      generation: this.#generation,
      newest: window.beginRefill(),
      departures: window.departures,
      // The exact count keeps the scan from walking over the deleted keys behind the last live key.
      onDisk: queue.plainReady(priority) - window.size,
    };
  }

  #endRefill(refill: Refill, found: readonly Position[]): void {
    const { queue, window, generation, newest, departures, onDisk } = refill;
    if (generation !== this.#generation) return;
    const { queues } = this.#parts;
    const last = found.at(-1);
    const haveLeft = window.departures !== departures;
    assert(
      last !== undefined || haveLeft,
      `${queue.name} counts ${onDisk} ready tasks that are not there`,
    );
    if (last === undefined) return;
    const reached = found.length < onDisk ? last.number : newest;
    const there = haveLeft ? found.filter((each) => this.#isReady(each)) : found;
    window.endRefill(there, reached);
    queue.headChanged();
    queues.windowEntries += there.length;
  }
}

/** The queues of a claim: by name, or all of the tenant's in order. */
type Requested = readonly QueueState[] | ReadyOrder<QueueState>;

/** The queue and priority whose oldest task comes first; its window may have to be read. */
function topOf(requested: Requested): Pick | undefined {
  if (!(requested instanceof ReadyOrder)) return topOfNamed(requested);
  const queue = requested.first();
  return queue && pickOf(queue, queue.topPriority);
}

function pickOf(queue: QueueState, priority: number): Pick {
  return { queue, priority, lane: queue.lanes?.next(priority) };
}

/** Nothing of the queue is in memory, and no read of it is under way. */
function isUnread(priority: number): (queue: QueueState) => boolean {
  return (queue) =>
    queue.topPriority === priority &&
    queue.headSeq(priority) === undefined &&
    queue.lanes?.next(priority) === undefined &&
    queue.window(priority).coveredTo === 0 &&
    queue.refill(priority) === undefined;
}

function bucketOf({ name, tenantId }: QueueState, priority: number): ReadyBucket {
  return { name, tenantId, priority };
}

function topOfNamed(queues: readonly QueueState[]): Pick | undefined {
  let best: QueueState | undefined;
  let priority = -1;
  let bestSeq = Number.POSITIVE_INFINITY;
  for (let at = 0; at < queues.length; at++) {
    const queue = queues[at] as QueueState;
    const top = queue.topPriority;
    if (top < 0 || top < priority) continue;
    // Tasks on disk may be older than all tasks in memory.
    const seq = queue.headSeq(top) ?? Number.NEGATIVE_INFINITY;
    if (top > priority || seq < bestSeq) {
      best = queue;
      priority = top;
      bestSeq = seq;
    }
  }
  return best && pickOf(best, priority);
}

/** A store that contradicts itself counts as failed. */
function asFault(error: unknown): FaultError {
  if (error instanceof FaultError) return error;
  return new FaultError("storage_failed", error instanceof Error ? error.message : String(error));
}
