/**
 * All subscriptions, stored and held in memory.
 *
 * - Memory follows the control store: a subscription is there once its record is durable.
 * - An expired subscription is invisible, also before it is removed.
 * - The time of a notification is written without waiting; a crash may lose the last one.
 */

import { limits } from "@codeq/protocol";
import { accept, type Outcome, queueOf, refuse, type TenantId } from "@codeq/queue";
import type { Clock } from "../../core/clock.ts";
import { type ControlRecords, changeIn, idIn } from "../../core/control/control-records.ts";
import type { ControlListener, ControlStore } from "../../core/control/control-store.ts";
import type { RecordText } from "../../core/store/store.ts";
import type { Job } from "../../core/sweeps/ticker.ts";
import { type RandomBytes, TaskIds } from "../../core/task-ids.ts";
import {
  type LastNotified,
  lastNotified,
  removalsOfSubscription,
  type Subscription,
  type SubscriptionId,
  subscriptionRecords,
  writeOfNewSubscription,
  writeOfSubscription,
  writeOfTurn,
} from "./subscription-record.ts";

export type SubscriptionRequest = Omit<Subscription, "id" | "createdMs">;

/** A subscription, and when its subscriber was notified. */
export interface Subscriber {
  subscription: Subscription;
  /** The last notification about any queue, on the wall clock; grows with every one. 0 for never. */
  notifiedMs: number;
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

export class Subscriptions implements ControlListener {
  readonly #store: ControlStore;
  readonly #clock: Clock;
  readonly #ids: TaskIds;
  readonly #subscribers: Map<SubscriptionId, Subscriber> = new Map();
  /** Subscriptions of each tenant, with those that are being written. */
  readonly #counts: Map<TenantId, number> = new Map();
  #beingWritten = 0;
  #lastTurnMs = 0;
  onAdded: (subscriber: Subscriber) => void = () => {};
  onRemoved: (subscriber: Subscriber) => void = () => {};

  private constructor(parts: { store: ControlStore; clock: Clock; randomBytes: RandomBytes }) {
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#ids = new TaskIds(parts.randomBytes);
  }

  static async open(parts: {
    readonly store: ControlStore;
    readonly clock: Clock;
    readonly randomBytes: RandomBytes;
  }): Promise<Subscriptions> {
    const subscriptions = new Subscriptions(parts);
    await parts.store.listen(subscriptions);
    return subscriptions;
  }

  /** Whether this server notifies and removes subscribers. */
  get isInCharge(): boolean {
    return this.#store.isInCharge;
  }

  get size(): number {
    return this.#subscribers.size;
  }

  /** The subscriptions that have not expired. */
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
      this.#subscribers.size + this.#beingWritten >= limits.subscriptionsMax ||
      (this.#counts.get(tenantId) ?? 0) >= limits.subscriptionsPerTenantMax;
    if (isFull) return refuse("too_many_subscriptions");
    const nowMs = this.#clock.nowMs();
    const id = this.#ids.next(nowMs) as string as SubscriptionId;
    const subscription: Subscription = { ...request, id, createdMs: nowMs };
    this.#beingWritten += 1;
    this.#count(tenantId, 1);
    try {
      await this.#store.commit([writeOfNewSubscription(subscription)]);
    } finally {
      this.#beingWritten -= 1;
      this.#count(tenantId, -1);
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
    const renewed = { ...subscriber.subscription, expiresMs };
    await this.#store.commit([writeOfSubscription(renewed)]);
    return renewed;
  }

  /** Undefined when there is none. */
  async remove(tenantId: TenantId, id: string): Promise<Subscription | undefined> {
    const subscriber = this.#find(tenantId, id);
    if (subscriber === undefined) return undefined;
    await this.#remove([subscriber]);
    return subscriber.subscription;
  }

  /** Removes a bounded number of expired subscriptions; returns whether there may be more. */
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

  /** The subscriber is notified now, so that the next turn is that of another one. */
  takeTurn(subscriber: Subscriber): void {
    this.#lastTurnMs = Math.max(Math.floor(this.#clock.nowMs()), this.#lastTurnMs + 1);
    subscriber.notifiedMs = this.#lastTurnMs;
    subscriber.isRecovered = false;
    if (this.#store.state !== "open") return;
    const write = writeOfTurn(subscriber.subscription.id, subscriber.notifiedMs);
    // If a crash loses it, the same subscriber has the next turn, too.
    this.#store.commit([write]).catch(() => {});
  }

  changed(write: RecordText): void {
    const turn = changeIn(lastNotified, write)?.record;
    if (turn !== undefined) this.#noteTurn(turn);
    const change = changeIn(subscriptionRecords, write);
    if (change === undefined) return;
    const subscription = change.record;
    const subscriber = this.#subscribers.get(idIn(change.name) as SubscriptionId);
    if (subscription === undefined) {
      if (subscriber !== undefined) this.#drop(subscriber);
    } else if (subscriber === undefined) {
      this.#add({ subscription, notifiedMs: 0, isRecovered: false });
    } else subscriber.subscription = subscription;
  }

  async load(records: ControlRecords): Promise<void> {
    for (const subscriber of this.#subscribers.values()) this.#drop(subscriber);
    const found: Subscription[] = [];
    for await (const subscription of records.all(subscriptionRecords)) found.push(subscription);
    const turns = new Map<SubscriptionId, number>();
    for await (const { id, notifiedMs } of records.all(lastNotified)) turns.set(id, notifiedMs);
    for (const subscription of found) {
      const notifiedMs = turns.get(subscription.id) ?? 0;
      this.#add({ subscription, notifiedMs, isRecovered: true });
      this.#lastTurnMs = Math.max(this.#lastTurnMs, notifiedMs);
    }
  }

  /** Notifications of another server count as those before a start. */
  takeCharge(): void {
    const all = [...this.#subscribers.values()];
    for (const subscriber of all) this.#drop(subscriber);
    for (const subscriber of all) this.#add({ ...subscriber, isRecovered: true });
  }

  #noteTurn({ id, notifiedMs }: LastNotified): void {
    const subscriber = this.#subscribers.get(id);
    if (subscriber !== undefined)
      subscriber.notifiedMs = Math.max(subscriber.notifiedMs, notifiedMs);
    this.#lastTurnMs = Math.max(this.#lastTurnMs, notifiedMs);
  }

  async #remove(subscribers: readonly Subscriber[]): Promise<void> {
    this.#store.assertDeletable();
    await this.#store.commit(
      subscribers.flatMap(({ subscription }) => removalsOfSubscription(subscription)),
    );
  }

  #find(tenantId: TenantId, id: string): Subscriber | undefined {
    const subscriber = this.#subscribers.get(id as SubscriptionId);
    const isOwn = subscriber?.subscription.tenantId === tenantId;
    return isOwn && this.isActive(subscriber) ? subscriber : undefined;
  }

  #add(subscriber: Subscriber): void {
    const { id, tenantId } = subscriber.subscription;
    this.#subscribers.set(id, subscriber);
    this.#count(tenantId, 1);
    this.onAdded(subscriber);
  }

  #drop(subscriber: Subscriber): void {
    const { id, tenantId } = subscriber.subscription;
    if (!this.#subscribers.delete(id)) return;
    this.#count(tenantId, -1);
    this.onRemoved(subscriber);
  }

  #count(tenantId: TenantId, more: 1 | -1): void {
    const count = (this.#counts.get(tenantId) ?? 0) + more;
    if (count > 0) this.#counts.set(tenantId, count);
    else this.#counts.delete(tenantId);
  }
}

/** The queues that a subscription names; undefined for all of its tenant. */
export function queuesOf({ eventTypes }: Subscription): readonly string[] | undefined {
  return eventTypes.includes(everyQueue) ? undefined : eventTypes.map(queueOf);
}

/** Removes expired subscriptions. They are already invisible before they are removed. */
export function removeSubscriptions(parts: {
  readonly subscriptions: Subscriptions;
  readonly clock: Clock;
  readonly everyMs: number;
}): Job {
  const { subscriptions, clock, everyMs } = parts;
  let nextMs = clock.monotonicMs() + everyMs;
  return {
    name: "remove-subscriptions",
    nextMs: () => (subscriptions.isInCharge && subscriptions.size > 0 ? nextMs : undefined),
    runOnce: async () => {
      const hasMore = await subscriptions.removeExpired();
      nextMs = clock.monotonicMs() + (hasMore ? 0 : everyMs);
    },
  };
}

declare module "../../edge/operation.ts" {
  interface Server {
    readonly subscriptions: Subscriptions;
  }
}
