/** All waiting claims, of all queues and tenants. */
import { limits } from "@codeq/protocol";
import type { TenantId } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import type { Claim } from "./claim.ts";
import type { ClaimLine } from "./claim-line.ts";
import type { ClaimedTask } from "./verbs.ts";

/** The lines of a queue. */
export interface QueueLines {
  readonly waiters: ClaimLine;
  readonly tenant: TenantLines;
}

/** The lines of a tenant. */
export interface TenantLines {
  readonly queues: ReadonlyMap<string, QueueLines>;
  /** Claims for whatever command has work. */
  readonly anyWaiters: ClaimLine;
  /** In how many lines its claims stand. */
  waiting: number;
}

/** Where lines are found; those that are missing are made. */
export interface LinesByQueue {
  tenant(tenantId: TenantId): TenantLines;
  findTenant(tenantId: TenantId): TenantLines | undefined;
  queue(tenantId: TenantId, name: string): QueueLines;
  tenants(): Iterable<readonly [TenantId, TenantLines]>;
}

const nothing: readonly ClaimedTask[] = [];

export class ClaimLines {
  readonly #clock: Clock;
  readonly #queues: LinesByQueue;
  #lastTicket = 0;
  #size = 0;
  #standing = 0;

  constructor(clock: Clock, queues: LinesByQueue) {
    this.#clock = clock;
    this.#queues = queues;
  }

  /** How many claims wait. */
  get size(): number {
    return this.#size;
  }

  /** In how many lines they stand together. */
  get standing(): number {
    return this.#standing;
  }

  /** Whether so many wait that no other of the tenant may. */
  areCrowded(tenantId: TenantId): boolean {
    return (
      this.#size >= limits.waitersMax ||
      this.#standing >= limits.waiterSlotsMax ||
      // One tenant has at most half, so that it cannot keep the others out.
      (this.#queues.findTenant(tenantId)?.waiting ?? 0) >= limits.waiterSlotsMax / 2
    );
  }

  wait(claim: Claim): void {
    this.#stand(claim, claim.waitMs);
    claim.ticket = ++this.#lastTicket;
    for (const line of claim.lines) line.add(claim);
  }

  /** Waits on where it left, since it had its turn and got nothing; or at the end, if it never waited. */
  waitOn(claim: Claim, waitMs: number): void {
    this.#stand(claim, waitMs);
    if (claim.ticket === 0) claim.ticket = ++this.#lastTicket;
    for (const line of claim.lines) line.addInOrder(claim);
  }

  #stand(claim: Claim, waitMs: number): void {
    const { tenantId } = claim;
    // All of them are made first: making one may drop others in which nobody waits yet.
    for (const name of claim.queues ?? []) this.#queues.queue(tenantId, name);
    const lines = claim.queues?.map((name) => this.#queues.queue(tenantId, name).waiters);
    const tenant = this.#queues.tenant(tenantId);
    claim.isWaiting = true;
    claim.lines = lines ?? [tenant.anyWaiters];
    this.#count(tenant, claim.lines.length);
    this.#size += 1;
    if (waitMs === Number.POSITIVE_INFINITY) return;
    claim.cancelTimer = this.#clock.after(waitMs, () => this.finish(claim));
  }

  /** Takes a claim out of its lines; false when it stood in none. */
  leave(claim: Claim): boolean {
    if (!claim.isWaiting) return false;
    claim.isWaiting = false;
    claim.cancelTimer?.();
    claim.cancelTimer = undefined;
    for (const line of claim.lines) line.left();
    this.#count(this.#queues.tenant(claim.tenantId), -claim.lines.length);
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

  /** Claims of the tenant that wait, as many as may be looked at. */
  ofTenant(tenantId: TenantId, max: number): readonly Claim[] {
    const tenant = this.#queues.findTenant(tenantId);
    if (tenant === undefined) return [];
    const found = new Set<Claim>(tenant.anyWaiters.waiting());
    for (const { waiters } of tenant.queues.values()) {
      if (found.size >= max) break;
      for (const claim of waiters.waiting()) found.add(claim);
    }
    return [...found].slice(0, max);
  }

  /** Who has waited longest for work in this queue. */
  next({ waiters, tenant }: QueueLines): Claim | undefined {
    const own = waiters.first();
    const any = tenant.anyWaiters.first();
    return own === undefined || (any !== undefined && any.ticket < own.ticket) ? any : own;
  }

  #count(tenant: TenantLines, change: number): void {
    this.#standing += change;
    tenant.waiting += change;
  }
}
