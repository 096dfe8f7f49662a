/** What the router knows about queues: which shards report work, and which claims wait. */
import { limits } from "@codeq/protocol";
import { queueOf, type TenantId } from "@codeq/queue";
import { WaitList } from "../broker/claims/wait-list.ts";
import { QueueMap, TenantQueues, type WaitingQueue } from "../broker/queues/queue-map.ts";
import { type Rankable, type Ranked, ReadyOrder } from "../ready-order.ts";
import type { QueueName } from "../store/store.ts";

/** The last report of a shard about a queue, and how many tasks were asked for since. */
export class Hint implements Rankable<Hint> {
  readonly queue: RoutedQueue;
  ready = 0;
  /** -1 without ready tasks. */
  topPriority = -1;
  asked = 0;
  /** The weights of the lanes that claims may take from; 1 without lanes. */
  shares = 1;
  /** Where it stands after the last claim that was sent there, by shares. */
  endTag = 0;
  entry: Ranked<Hint> | undefined;

  constructor(queue: RoutedQueue) {
    this.queue = queue;
  }

  get rank(): number | undefined {
    const hasWork = this.topPriority >= 0 && this.ready > this.asked && this.queue.leasesLeft > 0;
    return hasWork ? limits.priorityMax - this.topPriority : undefined;
  }
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
  /** All tasks of the queue are created in one shard. */
  isPlaced = false;

  constructor(name: string, tenantId: TenantId, tenant: RoutedTenant, shards: number) {
    this.name = name;
    this.tenantId = tenantId;
    this.tenant = tenant;
    this.leased = Array.from({ length: shards }, () => 0);
    this.hints = Array.from({ length: shards }, () => new Hint(this));
  }

  /** To be called after a change of its hints or leases. */
  changed(): void {
    for (const [shard, hint] of this.hints.entries()) this.tenant.orders[shard]?.note(hint);
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

  /** Over all shards. */
  get shares(): number {
    return this.hints.reduce((sum, { ready, shares }) => sum + (ready > 0 ? shares : 0), 0);
  }

  /** -1 without tasks to claim. */
  get topPriority(): number {
    if (this.isAtLimit) return -1;
    return this.hints.reduce((top, hint) => Math.max(top, hint.topPriority), -1);
  }

  get isIdle(): boolean {
    return (
      this.waiters.size === 0 &&
      !this.isPlaced &&
      this.leasedMax === Number.POSITIVE_INFINITY &&
      this.hints.every(({ ready, asked }) => ready === 0 && asked === 0)
    );
  }
}

export class RoutedTenant extends TenantQueues<RoutedQueue> {
  /** How many of its queues may have only so many leases. */
  limitedQueues = 0;
  /** By shard: the hints for claims that take from any queue. */
  readonly orders: readonly ReadyOrder<Hint>[];

  constructor(shards: number) {
    super();
    this.orders = Array.from(
      { length: shards },
      (_, shard) => new ReadyOrder(() => this.#hintsOf(shard)),
    );
  }

  *#hintsOf(shard: number): Generator<Hint> {
    for (const { hints } of this.queues.values()) yield hints[shard] as Hint;
  }
}

export class RoutedQueues extends QueueMap<RoutedQueue, RoutedTenant> {
  /** How many queues have all of their tasks in one shard. */
  #placed = 0;

  constructor(shards: number) {
    super({
      tenant: () => new RoutedTenant(shards),
      queue: (name, tenantId, tenant) => new RoutedQueue(name, tenantId, tenant, shards),
    });
  }

  /** Whether all tasks of a queue are created in one shard. */
  place({ tenantId, name }: QueueName, isPlaced: boolean): void {
    const queue = isPlaced ? this.queue(tenantId, name) : this.find(tenantId, name);
    if (queue === undefined || queue.isPlaced === isPlaced) return;
    queue.isPlaced = isPlaced;
    this.#placed += isPlaced ? 1 : -1;
  }

  isPlaced(tenantId: TenantId, command: string): boolean {
    return this.#placed > 0 && this.find(tenantId, queueOf(command))?.isPlaced === true;
  }

  /** What the shard reported is void. */
  forget(shard: number): void {
    for (const queue of [...this.all()]) {
      const hint = queue.hints[shard] as Hint;
      hint.ready = 0;
      hint.topPriority = -1;
      queue.changed();
      this.dropIfIdle(queue);
    }
  }
}
