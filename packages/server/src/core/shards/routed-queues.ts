/** What the router knows about queues: which shards report work, and which claims wait. */
import type { TenantId } from "@codeq/queue";
import { WaitList } from "../broker/claims/wait-list.ts";
import { QueueMap, TenantQueues, type WaitingQueue } from "../broker/queue-map.ts";

/** The last report of a shard about a queue, and how many tasks were asked for since. */
export interface Hint {
  ready: number;
  /** -1 without ready tasks. */
  topPriority: number;
  asked: number;
}

export class RoutedQueue implements WaitingQueue {
  readonly name: string;
  readonly tenantId: TenantId;
  readonly tenant: RoutedTenant;
  readonly waiters: WaitList = new WaitList();
  /** By shard. */
  readonly hints: Hint[];
  /** For a queue with a topic: how many leases it may have over all shards, and how many each shard has. */
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

  /** How many more leases may begin; leases that may be on their way count as begun. */
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

export class RoutedTenant extends TenantQueues<RoutedQueue> {
  /** How many of its queues may have only so many leases. */
  limitedQueues = 0;
}

export class RoutedQueues extends QueueMap<RoutedQueue, RoutedTenant> {
  constructor(shards: number) {
    super({
      tenant: () => new RoutedTenant(),
      queue: (name, tenantId, tenant) => new RoutedQueue(name, tenantId, tenant, shards),
    });
  }

  /** The queues with these names that are known, or all queues of the tenant. */
  requested(tenantId: TenantId, names: readonly string[] | undefined): readonly RoutedQueue[] {
    if (names === undefined) return [...this.ofTenant(tenantId)];
    return names.flatMap((name) => this.find(tenantId, name) ?? []);
  }

  /** What the shard reported is void. */
  forget(shard: number): void {
    for (const queue of [...this.all()]) {
      const hint = queue.hints[shard] as Hint;
      hint.ready = 0;
      hint.topPriority = -1;
      this.dropIfIdle(queue);
    }
  }
}
