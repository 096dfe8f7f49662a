/**
 * All subscriptions, stored and held in memory.
 *
 * - Memory is ahead of the disk, as in the broker: a caller is answered when the record is durable, and a
 *   failed write is undone in memory.
 * - An expired subscription is invisible, also before it is removed.
 * - The time of a notification is written without waiting; a crash may lose the last one.
 */
import { FaultError } from "@codeq/engine";
import { limits } from "@codeq/protocol";
import { accept, type Outcome, queueOf, refuse, type TenantId } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import type { Store } from "../store/store.ts";
import {
  removalsOfSubscription,
  type Subscription,
  type SubscriptionId,
  writeOfNewSubscription,
  writeOfSubscription,
  writeOfTurn,
} from "../store/subscription-record.ts";
import { type RandomBytes, TaskIds } from "../task-ids.ts";

export type SubscriptionRequest = Omit<Subscription, "id" | "createdMs">;

/** A subscription and what is known of its subscriber. */
export interface Subscriber {
  subscription: Subscription;
  /** When it was last told of any queue, on the wall clock; grows with every turn. 0 for never. */
  toldMs: number;
  /** Whether that was before this server started. */
  isRecovered: boolean;
}

export interface SubscriptionPage {
  readonly subscriptions: readonly Subscription[];
  /** Where the next page begins; undefined behind the last. */
  readonly next: string | undefined;
}

/** Stands for every queue of the tenant. */
const everyQueue = "*";

const removedPerBatchMax = 1000;

export class Subscriptions {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #ids: TaskIds;
  readonly #subscribers: Map<SubscriptionId, Subscriber> = new Map();
  readonly #counts: Map<TenantId, number> = new Map();
  #lastTurnMs = 0;
  onAdded: (subscriber: Subscriber) => void = () => {};
  onRemoved: (subscriber: Subscriber) => void = () => {};

  private constructor(parts: { store: Store; clock: Clock; randomBytes: RandomBytes }) {
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#ids = new TaskIds(parts.randomBytes);
  }

  static async open(parts: {
    readonly store: Store;
    readonly clock: Clock;
    readonly randomBytes: RandomBytes;
  }): Promise<Subscriptions> {
    const subscriptions = new Subscriptions(parts);
    await subscriptions.#recover();
    return subscriptions;
  }

  get size(): number {
    return this.#subscribers.size;
  }

  /** Those that have not run out. */
  *active(): Generator<Subscriber> {
    const nowMs = this.#clock.nowMs();
    for (const subscriber of this.#subscribers.values()) {
      if (subscriber.subscription.expiresMs > nowMs) yield subscriber;
    }
  }

  isActive({ subscription }: Subscriber): boolean {
    return subscription.expiresMs > this.#clock.nowMs();
  }

  find(tenantId: TenantId, id: string): Subscription | undefined {
    return this.#find(tenantId, id)?.subscription;
  }

  /** In the order in which they were made, which is that of their ids. */
  list(wanted: {
    readonly tenantId: TenantId;
    readonly after: string;
    readonly limit: number;
    readonly isSeen: (subscription: Subscription) => boolean;
  }): SubscriptionPage {
    const { tenantId, after, limit, isSeen } = wanted;
    const found: Subscription[] = [];
    for (const { subscription } of this.active()) {
      if (subscription.tenantId !== tenantId || subscription.id <= after) continue;
      if (isSeen(subscription)) found.push(subscription);
    }
    const page = found.sort((a, b) => (a.id < b.id ? -1 : 1)).slice(0, limit);
    return { subscriptions: page, next: found.length > limit ? page.at(-1)?.id : undefined };
  }

  async create(
    request: SubscriptionRequest,
  ): Promise<Outcome<Subscription, "too_many_subscriptions">> {
    const { tenantId } = request;
    const isFull =
      this.#subscribers.size >= limits.subscriptionsMax ||
      (this.#counts.get(tenantId) ?? 0) >= limits.subscriptionsPerTenantMax;
    if (isFull) return refuse("too_many_subscriptions");
    const nowMs = this.#clock.nowMs();
    const id = this.#ids.next(nowMs) as string as SubscriptionId;
    const subscription: Subscription = { ...request, id, createdMs: nowMs };
    const subscriber = { subscription, toldMs: 0, isRecovered: false };
    this.#add(subscriber);
    try {
      await this.#store.commitRecords([writeOfNewSubscription(subscription)]).done;
    } catch (error) {
      this.#drop(subscriber);
      throw error;
    }
    return accept(subscription);
  }

  /** Undefined when there is none, or none any more. */
  async renew(
    tenantId: TenantId,
    id: string,
    expiresMs: number,
  ): Promise<Subscription | undefined> {
    const subscriber = this.#find(tenantId, id);
    if (subscriber === undefined) return undefined;
    const before = subscriber.subscription;
    const renewed = { ...before, expiresMs };
    subscriber.subscription = renewed;
    try {
      await this.#store.commitRecords([writeOfSubscription(renewed)]).done;
    } catch (error) {
      if (subscriber.subscription === renewed) subscriber.subscription = before;
      throw error;
    }
    return renewed;
  }

  /** Undefined when there is none. */
  async remove(tenantId: TenantId, id: string): Promise<Subscription | undefined> {
    const subscriber = this.#find(tenantId, id);
    if (subscriber === undefined) return undefined;
    await this.#remove([subscriber]);
    return subscriber.subscription;
  }

  /** Removes a bounded number of those that have run out; answers whether there may be more. */
  async removeExpired(): Promise<boolean> {
    const expired: Subscriber[] = [];
    for (const subscriber of this.#subscribers.values()) {
      if (this.isActive(subscriber)) continue;
      expired.push(subscriber);
      if (expired.length === removedPerBatchMax) break;
    }
    if (expired.length > 0) await this.#remove(expired);
    return expired.length === removedPerBatchMax;
  }

  /** It is the turn of these subscribers, in this order; the next turn is that of others. */
  take(subscribers: readonly Subscriber[]): void {
    const writes = subscribers.map((subscriber) => {
      this.#lastTurnMs = Math.max(Math.floor(this.#clock.nowMs()), this.#lastTurnMs + 1);
      subscriber.toldMs = this.#lastTurnMs;
      subscriber.isRecovered = false;
      return writeOfTurn(subscriber.subscription.id, subscriber.toldMs);
    });
    if (writes.length === 0 || this.#store.state !== "open") return;
    // A turn that is forgotten is taken again by the same subscriber, after a crash.
    this.#store.commitRecords(writes).done.catch(() => {});
  }

  async #remove(subscribers: readonly Subscriber[]): Promise<void> {
    this.#store.assertDeletable();
    for (const each of subscribers) this.#drop(each);
    const writes = subscribers.flatMap(({ subscription }) => removalsOfSubscription(subscription));
    try {
      await this.#store.commitRecords(writes).done;
    } catch (error) {
      if (error instanceof FaultError) for (const each of subscribers) this.#add(each);
      throw error;
    }
  }

  #find(tenantId: TenantId, id: string): Subscriber | undefined {
    const subscriber = this.#subscribers.get(id as SubscriptionId);
    const isOwn = subscriber?.subscription.tenantId === tenantId;
    return isOwn && this.isActive(subscriber) ? subscriber : undefined;
  }

  #add(subscriber: Subscriber): void {
    const { id, tenantId } = subscriber.subscription;
    this.#subscribers.set(id, subscriber);
    this.#counts.set(tenantId, (this.#counts.get(tenantId) ?? 0) + 1);
    this.onAdded(subscriber);
  }

  #drop(subscriber: Subscriber): void {
    const { id, tenantId } = subscriber.subscription;
    if (!this.#subscribers.delete(id)) return;
    const count = (this.#counts.get(tenantId) ?? 0) - 1;
    if (count > 0) this.#counts.set(tenantId, count);
    else this.#counts.delete(tenantId);
    this.onRemoved(subscriber);
  }

  async #recover(): Promise<void> {
    for await (const subscription of this.#store.subscriptions()) {
      this.#add({ subscription, toldMs: 0, isRecovered: true });
    }
    for await (const [id, toldMs] of this.#store.subscriptionTurns()) {
      const subscriber = this.#subscribers.get(id);
      if (subscriber === undefined) continue;
      subscriber.toldMs = toldMs;
      this.#lastTurnMs = Math.max(this.#lastTurnMs, toldMs);
    }
  }
}

/** The queues that a subscription names; undefined for all of its tenant. */
export function queuesOf({ eventTypes }: Subscription): readonly string[] | undefined {
  return eventTypes.includes(everyQueue) ? undefined : eventTypes.map(queueOf);
}
