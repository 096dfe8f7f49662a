/** What the router knows about queues: which shards report work, and which claims wait. */
import type { TenantId } from "@codeq/queue";
import { ClaimLine } from "../broker/claim-line.ts";
import type { LinesByQueue, QueueLines, TenantLines } from "../broker/claim-lines.ts";

/** What a shard said of a queue, and how much of that was asked for since. */
export interface Hint {
  ready: number;
  /** -1 without ready tasks. */
  topPriority: number;
  asked: number;
}

export class RoutedQueue implements QueueLines {
  readonly name: string;
  readonly tenantId: TenantId;
  readonly tenant: RoutedTenant;
  readonly waiters: ClaimLine = new ClaimLine();
  /** By shard. */
  readonly hints: Hint[];
  /** How many leases it may have over all shards, and how many each has; as far as it has a topic. */
  leasedMax = Number.POSITIVE_INFINITY;
  readonly leased: number[];

  constructor(name: string, tenantId: TenantId, tenant: RoutedTenant, shards: number) {
    this.name = name;
    this.tenantId = tenantId;
    this.tenant = tenant;
    this.leased = Array.from({ length: shards }, () => 0);
    this.hints = Array.from({ length: shards }, () => ({ ready: 0, topPriority: -1, asked: 0 }));
  }

  get readyTotal(): number {
    return this.hints.reduce((sum, { ready }) => sum + ready, 0);
  }

  /** How many more leases may begin, with those that may be on their way. */
  get leasesLeft(): number {
    if (this.leasedMax === Number.POSITIVE_INFINITY) return this.leasedMax;
    const asked = this.hints.reduce((sum, each) => sum + each.asked, 0);
    return this.leasedMax - this.#leasedTotal - asked;
  }

  get #leasedTotal(): number {
    return this.leased.reduce((sum, each) => sum + each, 0);
  }

  /** It has as many leases as its topic allows. */
  get isAtLimit(): boolean {
    return this.#leasedTotal >= this.leasedMax;
  }

  /** -1 without tasks to claim. */
  get topPriority(): number {
    if (this.isAtLimit) return -1;
    return this.hints.reduce((top, hint) => Math.max(top, hint.topPriority), -1);
  }

  get isIdle(): boolean {
    return (
      this.waiters.size === 0 &&
      this.leasedMax === Number.POSITIVE_INFINITY &&
      this.hints.every(({ ready, asked }) => ready === 0 && asked === 0)
    );
  }
}

export class RoutedTenant implements TenantLines {
  readonly queues: Map<string, RoutedQueue> = new Map();
  readonly anyWaiters: ClaimLine = new ClaimLine();
  waiting = 0;
  /** A claim was not served because the tenant has all the leases it may have. */
  isHeldBack = false;
  /** How many of its queues may have only so many leases. */
  limitedQueues = 0;
}

/** Queues that nobody has anything to say of are dropped once there may be so many. */
const idleQueuesMax = 1024;

export class RoutedQueues implements LinesByQueue {
  readonly #shards: number;
  #size = 0;
  #dropAt = idleQueuesMax;
  readonly #tenants: Map<TenantId, RoutedTenant> = new Map();

  constructor(shards: number) {
    this.#shards = shards;
  }

  tenant(tenantId: TenantId): RoutedTenant {
    let tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) {
      tenant = new RoutedTenant();
      this.#tenants.set(tenantId, tenant);
    }
    return tenant;
  }

  findTenant(tenantId: TenantId): RoutedTenant | undefined {
    return this.#tenants.get(tenantId);
  }

  find(tenantId: TenantId, name: string): RoutedQueue | undefined {
    return this.#tenants.get(tenantId)?.queues.get(name);
  }

  queue(tenantId: TenantId, name: string): RoutedQueue {
    const known = this.find(tenantId, name);
    if (known !== undefined) return known;
    if (this.#size >= this.#dropAt) this.#dropIdle();
    const tenant = this.tenant(tenantId);
    const queue = new RoutedQueue(name, tenantId, tenant, this.#shards);
    tenant.queues.set(name, queue);
    this.#size += 1;
    return queue;
  }

  *all(): Generator<RoutedQueue> {
    for (const tenant of this.#tenants.values()) yield* tenant.queues.values();
  }

  /** How many queues are known. */
  get size(): number {
    return this.#size;
  }

  /** Those of them that are known, or all of the tenant. */
  requested(tenantId: TenantId, names: readonly string[] | undefined): readonly RoutedQueue[] {
    const queues = this.#tenants.get(tenantId)?.queues;
    if (queues === undefined) return [];
    if (names === undefined) return [...queues.values()];
    return names.map((name) => queues.get(name)).filter((queue) => queue !== undefined);
  }

  tenants(): Iterable<readonly [TenantId, RoutedTenant]> {
    return this.#tenants;
  }

  /** There is nothing to know of it any more. */
  dropIfIdle({ name, tenantId, tenant, isIdle }: RoutedQueue): void {
    if (!isIdle || !tenant.queues.delete(name)) return;
    this.#size -= 1;
    this.#dropTenantIfIdle(tenantId, tenant);
  }

  /** Claims that have left their lines tell nobody. */
  #dropIdle(): void {
    for (const queue of [...this.all()]) this.dropIfIdle(queue);
    for (const [tenantId, tenant] of [...this.#tenants]) this.#dropTenantIfIdle(tenantId, tenant);
    this.#dropAt = Math.max(idleQueuesMax, this.#size * 2);
  }

  #dropTenantIfIdle(tenantId: TenantId, tenant: RoutedTenant): void {
    if (tenant.queues.size === 0 && tenant.waiting === 0 && tenant.anyWaiters.size === 0) {
      this.#tenants.delete(tenantId);
    }
  }

  /** Nothing that the shard said counts any more. */
  forget(shard: number): void {
    for (const queue of [...this.all()]) {
      const hint = queue.hints[shard] as Hint;
      hint.ready = 0;
      hint.topPriority = -1;
      this.dropIfIdle(queue);
    }
  }
}
