/**
 * Queues by tenant and name, with the claims that wait for them. A queue is made when it is first needed; queues
 * that have nothing in them are dropped when there are many.
 */
import type { TenantId } from "@codeq/queue";
import { WaitList } from "../claims/wait-list.ts";

export interface WaitingQueue {
  readonly name: string;
  readonly tenantId: TenantId;
  readonly tenant: TenantQueues<WaitingQueue>;
  readonly waiters: WaitList;
  /** The queue has no tasks, no waiting claims and no settings. */
  readonly isIdle: boolean;
}

export class TenantQueues<Queue> {
  readonly queues: Map<string, Queue> = new Map();
  /** Claims for any queue of the tenant. */
  readonly anyWaiters: WaitList = new WaitList();
  /** In how many wait lists its claims are. */
  waiting = 0;
  /** A claim was not served because the tenant has all the leases it may have. */
  isHeldBack = false;
}

interface MakeQueues<Queue, Tenant> {
  tenant(): Tenant;
  queue(name: string, tenantId: TenantId, tenant: Tenant): Queue;
}

const idleQueuesMax = 1024;

export class QueueMap<Queue extends WaitingQueue, Tenant extends TenantQueues<Queue>> {
  readonly #tenants: Map<TenantId, Tenant> = new Map();
  readonly #make: MakeQueues<Queue, Tenant>;
  #size = 0;
  #dropAt = idleQueuesMax;

  constructor(make: MakeQueues<Queue, Tenant>) {
    this.#make = make;
  }

  /** How many queues are known. */
  get size(): number {
    return this.#size;
  }

  tenant(tenantId: TenantId): Tenant {
    let tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) {
      tenant = this.#make.tenant();
      this.#tenants.set(tenantId, tenant);
    }
    return tenant;
  }

  findTenant(tenantId: TenantId): Tenant | undefined {
    return this.#tenants.get(tenantId);
  }

  tenants(): Iterable<readonly [TenantId, Tenant]> {
    return this.#tenants;
  }

  /** The queue, made when it is missing. */
  queue(tenantId: TenantId, name: string): Queue {
    const known = this.find(tenantId, name);
    if (known !== undefined) return known;
    if (this.#size >= this.#dropAt) this.#dropIdle();
    const tenant = this.tenant(tenantId);
    const queue = this.#make.queue(name, tenantId, tenant);
    tenant.queues.set(name, queue);
    this.#size += 1;
    return queue;
  }

  find(tenantId: TenantId, name: string): Queue | undefined {
    return this.#tenants.get(tenantId)?.queues.get(name);
  }

  *all(): Generator<Queue> {
    for (const tenant of this.#tenants.values()) yield* tenant.queues.values();
  }

  ofTenant(tenantId: TenantId): Iterable<Queue> {
    return this.#tenants.get(tenantId)?.queues.values() ?? [];
  }

  dropIfIdle({ name, tenantId, isIdle }: Queue): void {
    const tenant = this.#tenants.get(tenantId);
    if (!isIdle || !tenant?.queues.delete(name)) return;
    this.#size -= 1;
    this.#dropTenantIfIdle(tenantId, tenant);
  }

  clear(): void {
    this.#tenants.clear();
    this.#size = 0;
  }

  #dropIdle(): void {
    for (const queue of [...this.all()]) this.dropIfIdle(queue);
    for (const [tenantId, tenant] of [...this.#tenants]) this.#dropTenantIfIdle(tenantId, tenant);
    this.#dropAt = Math.max(idleQueuesMax, this.#size * 2);
  }

  #dropTenantIfIdle(tenantId: TenantId, { queues, waiting }: Tenant): void {
    if (queues.size === 0 && waiting === 0) this.#tenants.delete(tenantId);
  }
}
