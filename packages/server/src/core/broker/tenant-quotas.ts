/**
 * What is left of the quota of a tenant. A quota limits only new work: an accepted task may come back and
 * end, and a result is always accepted, so a total may exceed its limit by the tasks that were in progress.
 */
import type { TenantId } from "@codeq/queue";
import { type Exceeded, isLimited, type Quotas, quotaOf } from "../../config/quotas.ts";

/** What a tenant has. */
export interface Usage {
  /** Tasks that are ready or delayed. */
  readonly pending: number;
  readonly leased: number;
  readonly storedBytes: number;
}

/** What quotas look at in a new task. */
export interface QuotaOf {
  readonly tenantId: TenantId;
  readonly command: string;
  readonly lane?: string | undefined;
  readonly payloadBytes: number;
}

export class TenantQuotas {
  readonly #quotas: Quotas;
  readonly #usageOf: (tenantId: TenantId) => Usage;
  /** Whether there is any quota besides the number of queues. */
  readonly isLimited: boolean;

  constructor(quotas: Quotas, usageOf: (tenantId: TenantId) => Usage) {
    this.#quotas = quotas;
    this.#usageOf = usageOf;
    this.isLimited = isLimited(quotas);
  }

  /** What one more task with a payload of so many bytes would exceed. */
  exceededByTask(tenantId: TenantId, bytes: number): Exceeded | undefined {
    if (!this.isLimited) return undefined;
    const { pendingTasks: limit } = quotaOf(this.#quotas, tenantId);
    const { pending: current } = this.#usageOf(tenantId);
    if (current >= limit) return { quota: "pendingTasks", limit, current };
    return this.exceededByBytes(tenantId, bytes);
  }

  /** How many more tasks with a payload of so many bytes the tenant may have. */
  roomFor(tenantId: TenantId, bytes: number): number {
    if (!this.isLimited) return Number.POSITIVE_INFINITY;
    const quota = quotaOf(this.#quotas, tenantId);
    const { pending, storedBytes } = this.#usageOf(tenantId);
    const ofBytes =
      bytes === 0 ? Number.POSITIVE_INFINITY : (quota.storedBytes - storedBytes) / bytes;
    return Math.floor(Math.min(quota.pendingTasks - pending, ofBytes));
  }

  /** What one more queue would exceed for a tenant that has tasks in so many queues. */
  exceededByQueue(tenantId: TenantId, current: number): Exceeded | undefined {
    const { queues: limit } = quotaOf(this.#quotas, tenantId);
    return current < limit ? undefined : { quota: "queues", limit, current };
  }

  /** What one more lane would exceed. */
  exceededByLane(tenantId: TenantId, current: number): Exceeded | undefined {
    const { lanes: limit } = quotaOf(this.#quotas, tenantId);
    return current < limit ? undefined : { quota: "lanes", limit, current };
  }

  /** What so many more bytes would exceed. */
  exceededByBytes(tenantId: TenantId, bytes: number): Exceeded | undefined {
    if (!this.isLimited) return undefined;
    const { storedBytes: limit } = quotaOf(this.#quotas, tenantId);
    const { storedBytes: current } = this.#usageOf(tenantId);
    return current + bytes <= limit ? undefined : { quota: "storedBytes", limit, current };
  }

  /** What one more lease would exceed. */
  exceededByLease(tenantId: TenantId): Exceeded | undefined {
    if (this.leasesLeft(tenantId) > 0) return undefined;
    const { concurrentLeases: limit } = quotaOf(this.#quotas, tenantId);
    return { quota: "concurrentLeases", limit, current: this.#usageOf(tenantId).leased };
  }

  /** How many more leases the tenant may have. */
  leasesLeft(tenantId: TenantId): number {
    if (!this.isLimited) return Number.POSITIVE_INFINITY;
    const { concurrentLeases } = quotaOf(this.#quotas, tenantId);
    return Math.max(concurrentLeases - this.#usageOf(tenantId).leased, 0);
  }
}
