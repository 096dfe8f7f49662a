/**
 * What is left of the quota of a tenant. A quota limits only new work: an accepted task may come back and
 * end, and a result is always accepted, so a total may exceed its limit by the tasks that were in progress.
 */
import type { TenantId } from "@codeq/queue";
import { type Exceeded, isLimited, type Quotas, quotaOf } from "../../config/quotas.ts";
import type { Store } from "../store/store.ts";
import type { Queues } from "./queue-state.ts";

export class TenantRoom {
  readonly #quotas: Quotas;
  readonly #queues: Queues;
  readonly #store: Store;
  /** Whether there is any quota at all. */
  readonly isLimited: boolean;

  constructor(parts: { quotas: Quotas; queues: Queues; store: Store }) {
    this.#quotas = parts.quotas;
    this.#queues = parts.queues;
    this.#store = parts.store;
    this.isLimited = isLimited(parts.quotas);
  }

  /** What one more task with a payload of so many bytes would exceed. */
  exceededByTask(tenantId: TenantId, bytes: number): Exceeded | undefined {
    if (!this.isLimited) return undefined;
    const { pendingTasks } = quotaOf(this.#quotas, tenantId);
    const pending = this.#queues.findTenant(tenantId)?.pending ?? 0;
    if (pending >= pendingTasks) {
      return { quota: "pendingTasks", limit: pendingTasks, current: pending };
    }
    return this.exceededByBytes(tenantId, bytes);
  }

  /** What so many more bytes would exceed. */
  exceededByBytes(tenantId: TenantId, bytes: number): Exceeded | undefined {
    if (!this.isLimited) return undefined;
    const { storedBytes } = quotaOf(this.#quotas, tenantId);
    if (storedBytes === Number.POSITIVE_INFINITY) return undefined;
    const stored = this.#store.storedBytes(tenantId);
    if (stored + bytes <= storedBytes) return undefined;
    return { quota: "storedBytes", limit: storedBytes, current: stored };
  }

  /** What one more lease would exceed. */
  exceededByLease(tenantId: TenantId): Exceeded | undefined {
    if (this.leases(tenantId) > 0) return undefined;
    const { concurrentLeases: limit } = quotaOf(this.#quotas, tenantId);
    const current = this.#queues.findTenant(tenantId)?.leased ?? 0;
    return { quota: "concurrentLeases", limit, current };
  }

  /** How many more leases it may have. */
  leases(tenantId: TenantId): number {
    if (!this.isLimited) return Number.POSITIVE_INFINITY;
    const held = this.#queues.findTenant(tenantId)?.leased ?? 0;
    return Math.max(quotaOf(this.#quotas, tenantId).concurrentLeases - held, 0);
  }
}
