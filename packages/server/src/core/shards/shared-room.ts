/**
 * What quotas leave a tenant, over all shards: what they told, and what was sent to them since. A call
 * that a shard has carried out is part of what it tells, so nothing is counted twice and nothing is
 * forgotten. While a shard is away, what it had and what was on its way to it still counts. The end of a
 * lease that was told and not durable is undone when its shard ends; where another shard gave its place to
 * somebody meanwhile, the tenant is above its quota until a lease ends.
 */
import type { TenantId } from "@codeq/queue";
import { type Exceeded, isLimited, type Quotas, quotaOf } from "../../config/quotas.ts";

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
  /** The sum of what was sent, by tenant. */
  readonly #underWay: Map<TenantId, Held> = new Map();

  constructor(quotas: Quotas, shards: number) {
    this.#quotas = quotas;
    this.isLimited = isLimited(quotas);
    this.#told = Array.from({ length: shards }, () => new Map());
    this.#sent = Array.from({ length: shards }, () => []);
  }

  /** A shard tells what a tenant has there. */
  tell(shard: number, tenantId: TenantId, held: Held): void {
    const told = this.#told[shard];
    if (isNothing(held)) told?.delete(tenantId);
    else told?.set(tenantId, held);
  }

  /** A call that may take so much is on its way. */
  send(shard: number, number: number, tenantId: TenantId, takes: Partial<Held>): void {
    if (!this.isLimited) return;
    const sent: Sent = { ...nothing, ...takes, number, tenantId };
    this.#sent[shard]?.push(sent);
    this.#count(sent, 1);
  }

  /** What a shard told has everything up to this call in it, but for what is not decided yet. */
  carriedOut(shard: number, number: number, undecided: readonly number[]): void {
    const sent = this.#sent[shard];
    if (sent === undefined || sent.length === 0) return;
    this.#sent[shard] = sent.filter((each) => {
      const isUnderWay = each.number > number || undecided.includes(each.number);
      if (!isUnderWay) this.#count(each, -1);
      return isUnderWay;
    });
  }

  /** All that a shard has told is void; it tells anew what its tenants have. */
  forget(shard: number): void {
    this.#told[shard]?.clear();
  }

  /** Whoever took the calls to a shard is gone; what it carried out of them, the next one tells. */
  forgetSent(shard: number): void {
    for (const each of this.#sent[shard] ?? []) this.#count(each, -1);
    this.#sent[shard] = [];
  }

  /** What one more task with a payload of so many bytes would exceed. */
  exceededByTask(tenantId: TenantId, bytes: number): Exceeded | undefined {
    if (!this.isLimited) return undefined;
    const { pendingTasks } = quotaOf(this.#quotas, tenantId);
    const held = this.held(tenantId);
    if (held.pending >= pendingTasks) {
      return { quota: "pendingTasks", limit: pendingTasks, current: held.pending };
    }
    return this.exceededByBytes(tenantId, bytes);
  }

  /** What so many more bytes would exceed. */
  exceededByBytes(tenantId: TenantId, bytes: number): Exceeded | undefined {
    if (!this.isLimited) return undefined;
    const { storedBytes } = quotaOf(this.#quotas, tenantId);
    const held = this.held(tenantId);
    if (held.storedBytes + bytes <= storedBytes) return undefined;
    return { quota: "storedBytes", limit: storedBytes, current: held.storedBytes };
  }

  /** What one more lease would exceed. */
  exceededByLease(tenantId: TenantId): Exceeded | undefined {
    if (this.leases(tenantId) > 0) return undefined;
    const { concurrentLeases: limit } = quotaOf(this.#quotas, tenantId);
    return { quota: "concurrentLeases", limit, current: this.held(tenantId).leased };
  }

  /** How many more leases it may have. */
  leases(tenantId: TenantId): number {
    if (!this.isLimited) return Number.POSITIVE_INFINITY;
    const { concurrentLeases } = quotaOf(this.#quotas, tenantId);
    if (concurrentLeases === Number.POSITIVE_INFINITY) return concurrentLeases;
    return Math.max(concurrentLeases - this.held(tenantId).leased, 0);
  }

  /** What it has and what is on its way. */
  held(tenantId: TenantId): Held {
    let held = this.#underWay.get(tenantId) ?? nothing;
    for (const told of this.#told) {
      const there = told.get(tenantId);
      if (there !== undefined) held = sum(held, there, 1);
    }
    return held;
  }

  #count(sent: Sent, sign: 1 | -1): void {
    const held = sum(this.#underWay.get(sent.tenantId) ?? nothing, sent, sign);
    if (isNothing(held)) this.#underWay.delete(sent.tenantId);
    else this.#underWay.set(sent.tenantId, held);
  }
}

function sum(held: Held, more: Held, sign: 1 | -1): Held {
  return {
    pending: held.pending + sign * more.pending,
    leased: held.leased + sign * more.leased,
    storedBytes: held.storedBytes + sign * more.storedBytes,
  };
}

function isNothing({ pending, leased, storedBytes }: Held): boolean {
  return pending === 0 && leased === 0 && storedBytes === 0;
}
