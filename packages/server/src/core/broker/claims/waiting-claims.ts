/** All waiting claims, of all queues and tenants. */
import { limits } from "@codeq/protocol";
import type { TenantId, WorkerId } from "@codeq/queue";
import type { Clock } from "../../clock.ts";
import type { WaitingWorker } from "../../search/explained.ts";
import type { QueueMap, TenantQueues, WaitingQueue } from "../queues/queue-map.ts";
import type { ClaimedTask } from "../verbs.ts";
import type { Claim } from "./claim.ts";

const nothing: readonly ClaimedTask[] = [];
/** Claims that are looked at to answer which workers wait. */
const reportedMax = 10_000;

export class WaitingClaims {
  readonly #clock: Clock;
  readonly #queues: QueueMap<WaitingQueue, TenantQueues<WaitingQueue>>;
  #lastTicket = 0;
  #size = 0;
  #listed = 0;

  constructor(clock: Clock, queues: QueueMap<WaitingQueue, TenantQueues<WaitingQueue>>) {
    this.#clock = clock;
    this.#queues = queues;
  }

  /** How many claims wait. */
  get size(): number {
    return this.#size;
  }

  /** In how many wait lists the claims are, all together. */
  get listed(): number {
    return this.#listed;
  }

  /** Whether so many claims wait that the tenant may not have another waiting claim. */
  areCrowded(tenantId: TenantId): boolean {
    return (
      this.#size >= limits.waitersMax ||
      this.#listed >= limits.waiterSlotsMax ||
      // One tenant has at most half of the entries, so that it cannot keep others out.
      (this.#queues.findTenant(tenantId)?.waiting ?? 0) >= limits.waiterSlotsMax / 2
    );
  }

  wait(claim: Claim): void {
    this.#list(claim, claim.waitMs);
    claim.ticket = ++this.#lastTicket;
    for (const list of claim.waitLists) list.add(claim);
  }

  /** Continues the wait of a claim that had its turn and got nothing, in its old position. */
  waitAgain(claim: Claim, waitMs: number): void {
    this.#list(claim, waitMs);
    if (claim.ticket === 0) claim.ticket = ++this.#lastTicket;
    for (const list of claim.waitLists) list.addInOrder(claim);
  }

  #list(claim: Claim, waitMs: number): void {
    const { tenantId } = claim;
    // All queues are made first: making one may drop others that have no waiting claims yet.
    for (const name of claim.queues ?? []) this.#queues.queue(tenantId, name);
    const lists = claim.queues?.map((name) => this.#queues.queue(tenantId, name).waiters);
    const tenant = this.#queues.tenant(tenantId);
    claim.isWaiting = true;
    claim.waitLists = lists ?? [tenant.anyWaiters];
    this.#count(tenant, claim.waitLists.length);
    this.#size += 1;
    if (waitMs === Number.POSITIVE_INFINITY) return;
    claim.cancelTimer = this.#clock.after(waitMs, () => this.finish(claim));
  }

  /** Takes a claim out of its wait lists; false when the claim did not wait. */
  leave(claim: Claim): boolean {
    if (!claim.isWaiting) return false;
    claim.isWaiting = false;
    claim.cancelTimer?.();
    claim.cancelTimer = undefined;
    for (const list of claim.waitLists) list.left();
    this.#count(this.#queues.tenant(claim.tenantId), -claim.waitLists.length);
    this.#size -= 1;
    return true;
  }

  /** Ends the wait of a claim with nothing. */
  finish(claim: Claim): void {
    if (this.leave(claim)) claim.durable(nothing);
  }

  /** Ends every wait with nothing. */
  finishAll(): void {
    const waiting = new Set<Claim>();
    for (const [, tenant] of this.#queues.tenants()) {
      for (const claim of tenant.anyWaiters.waiting()) waiting.add(claim);
      for (const queue of tenant.queues.values()) {
        for (const claim of queue.waiters.waiting()) waiting.add(claim);
      }
    }
    for (const claim of waiting) this.finish(claim);
  }

  /** Which workers of the tenant wait for which tasks. */
  workersOf(tenantId: TenantId): readonly WaitingWorker[] {
    const found = new Map<WorkerId, WaitingWorker>();
    for (const { workerId, queues } of this.#ofTenant(tenantId)) {
      const { claims, queues: others } = found.get(workerId) ?? { claims: 0, queues: [] };
      found.set(workerId, {
        workerId,
        claims: claims + 1,
        queues: queues && others && [...new Set([...others, ...queues])],
      });
    }
    return [...found.values()];
  }

  #ofTenant(tenantId: TenantId): readonly Claim[] {
    const tenant = this.#queues.findTenant(tenantId);
    if (tenant === undefined) return [];
    const found = new Set<Claim>(tenant.anyWaiters.waiting());
    for (const { waiters } of tenant.queues.values()) {
      if (found.size >= reportedMax) break;
      for (const claim of waiters.waiting()) found.add(claim);
    }
    return [...found].slice(0, reportedMax);
  }

  /** The claim that has waited longest for work in this queue. */
  next({ waiters, tenant }: WaitingQueue): Claim | undefined {
    const own = waiters.first();
    const any = tenant.anyWaiters.first();
    return own === undefined || (any !== undefined && any.ticket < own.ticket) ? any : own;
  }

  #count(tenant: TenantQueues<WaitingQueue>, change: number): void {
    this.#listed += change;
    tenant.waiting += change;
  }
}
