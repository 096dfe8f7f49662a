/**
 * What quotas leave a tenant, over all shards: what they told, and what was sent to them since. A call
 * that a shard has carried out is part of what it tells, so nothing is counted twice and nothing is
 * forgotten.
 */
import type { TenantId } from "@codeq/queue";
import { type Exceeded, isLimited, type Quotas, quotaOf } from "../config/quotas.ts";

export interface Held {
  readonly pending: number;
  readonly leased: number;
  readonly storedBytes: number;
}

interface Sent extends Held {
  readonly number: number;
  readonly tenantId: TenantId;
}

const nothing: Held = { pending: 0, leased: 0, storedBytes: 0 };

export class SharedRoom {
  readonly #quotas: Quotas;
  readonly isLimited: boolean;
  /** By shard. */
  readonly #told: readonly Map<TenantId, Held>[];
  readonly #sent: Sent[][];

  constructor(quotas: Quotas, shards: number) {
    this.#quotas = quotas;
    this.isLimited = isLimited(quotas);
    this.#told = Array.from({ length: shards }, () => new Map());
    this.#sent = Array.from({ length: shards }, () => []);
  }

  /** A shard tells what a tenant has there. */
  tell(shard: number, tenantId: TenantId, held: Held): void {
    const told = this.#told[shard];
    const isNothing = held.pending === 0 && held.leased === 0 && held.storedBytes === 0;
    if (isNothing) told?.delete(tenantId);
    else told?.set(tenantId, held);
  }

  /** A call that may take so much is on its way. */
  send(shard: number, number: number, tenantId: TenantId, takes: Partial<Held>): void {
    if (this.isLimited) this.#sent[shard]?.push({ ...nothing, ...takes, number, tenantId });
  }

  /** What a shard told has everything up to this call in it. */
  carriedOut(shard: number, number: number): void {
    const sent = this.#sent[shard];
    if (sent === undefined || sent.length === 0) return;
    const left = sent.findIndex((each) => each.number > number);
    sent.splice(0, left < 0 ? sent.length : left);
  }

  /** The shard is gone, and with it what was on its way. */
  forget(shard: number): void {
    this.#sent[shard] = [];
  }

  /** What one more task with a payload of so many bytes would exceed. */
  exceededByTask(tenantId: TenantId, bytes: number): Exceeded | undefined {
    if (!this.isLimited) return undefined;
    const { pendingTasks, storedBytes } = quotaOf(this.#quotas, tenantId);
    const held = this.#held(tenantId);
    if (held.pending >= pendingTasks) {
      return { quota: "pendingTasks", limit: pendingTasks, current: held.pending };
    }
    if (held.storedBytes + bytes <= storedBytes) return undefined;
    return { quota: "storedBytes", limit: storedBytes, current: held.storedBytes };
  }

  /** What one more lease would exceed. */
  exceededByLease(tenantId: TenantId): Exceeded | undefined {
    if (this.leases(tenantId) > 0) return undefined;
    const { concurrentLeases: limit } = quotaOf(this.#quotas, tenantId);
    return { quota: "concurrentLeases", limit, current: this.#held(tenantId).leased };
  }

  /** How many more leases it may have. */
  leases(tenantId: TenantId): number {
    if (!this.isLimited) return Number.POSITIVE_INFINITY;
    const { concurrentLeases } = quotaOf(this.#quotas, tenantId);
    if (concurrentLeases === Number.POSITIVE_INFINITY) return concurrentLeases;
    return Math.max(concurrentLeases - this.#held(tenantId).leased, 0);
  }

  #held(tenantId: TenantId): Held {
    let { pending, leased, storedBytes } = nothing;
    const add = (held: Held): void => {
      pending += held.pending;
      leased += held.leased;
      storedBytes += held.storedBytes;
    };
    for (const told of this.#told) add(told.get(tenantId) ?? nothing);
    for (const sent of this.#sent) {
      for (const each of sent) if (each.tenantId === tenantId) add(each);
    }
    return { pending, leased, storedBytes };
  }
}
