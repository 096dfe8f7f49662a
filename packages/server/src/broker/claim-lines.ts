/** All claims that wait for work, over all queues and tenants. */
import type { Clock } from "../clock.ts";
import type { Claim } from "./claim.ts";
import type { QueueState, Queues, TenantState } from "./queue-state.ts";
import type { ClaimedTask } from "./verbs.ts";

const nothing: readonly ClaimedTask[] = [];

export class ClaimLines {
  readonly #clock: Clock;
  readonly #queues: Queues;
  #lastTicket = 0;
  #size = 0;
  #standing = 0;

  constructor(clock: Clock, queues: Queues) {
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

  wait(claim: Claim): void {
    const { tenantId, waitMs } = claim;
    const tenant = this.#queues.tenant(tenantId);
    const lines = claim.queues?.map((name) => this.#queues.queue(tenantId, name).waiters);
    claim.ticket = ++this.#lastTicket;
    claim.isWaiting = true;
    claim.lines = lines ?? [tenant.anyWaiters];
    for (const line of claim.lines) line.add(claim);
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

  /** Who has waited longest for work in this queue. */
  next({ waiters, tenant }: QueueState): Claim | undefined {
    const own = waiters.first();
    const any = tenant.anyWaiters.first();
    return own === undefined || (any !== undefined && any.ticket < own.ticket) ? any : own;
  }

  #count(tenant: TenantState, change: number): void {
    this.#standing += change;
    tenant.waiting += change;
  }
}
