/**
 * Notifies subscribers that their queues have work: at once when a queue gets its first ready task, and
 * again after the interval of the subscriber while tasks are ready. So a notification that a subscriber
 * missed, or that a crash lost, is repeated. Producers never wait for notifications.
 *
 * One member of each audience is notified. Members that were notified within their interval, do not answer,
 * or are being notified are skipped. A notification without an answer goes to the next member, or to the
 * same one a moment later; after a few tries it counts as failed, and the next one is a new notification.
 */
import { FaultError } from "@codeq/engine";
import type { WireOf } from "@codeq/protocol";
import type { NotificationBody } from "@codeq/protocol/api";
import type { TenantId } from "@codeq/queue";
import type { Config } from "../../config/settings.ts";
import type { Broker, QueueWork } from "../../core/broker/broker.ts";
import type { Clock } from "../../core/clock.ts";
import { IndexedHeap } from "../../core/indexed-heap.ts";
import type { Limiter } from "../../core/limiter/limiter.ts";
import { CircuitBreaker } from "../../core/outbound/circuit-breaker.ts";
import { type Answer, answerTo, isSuccess, type Post, whyOf } from "../../core/outbound/post.ts";
import { type Ending, type Outgoing, Sender, waitForLimit } from "../../core/outbound/sender.ts";
import { type SigningSecret, signingNow } from "../../core/records/signing-record.ts";
import { type RandomBytes, TaskIds } from "../../core/task-ids.ts";
import { utcSeconds } from "../../core/timestamps.ts";
import type { Events } from "../../telemetry/events.ts";
import { type Logger, SpacedWarnings } from "../../telemetry/logger.ts";
import { noTracing, type Tracing } from "../../telemetry/tracing/tracing.ts";
import { Audience, audienceName, WatchedQueue } from "./audience.ts";
import { queuesOf, type Subscriber, type Subscriptions } from "./subscriptions.ts";

/** The content of a notification. */
export interface AvailableWork {
  readonly tenantId: TenantId;
  readonly url: string;
  readonly subscriptionId: string;
  /** The same with every try. */
  readonly notificationId: string;
  /** The command as the subscriber wrote it. */
  readonly eventType: string;
  /** How many tasks are ready. */
  readonly queueDepth: number;
}

/** Notifies a subscriber; the secrets of its tenant sign the request. */
export type PostNotification = (
  work: AvailableWork,
  secrets: readonly string[],
) => Promise<Answer | undefined>;

export function createPostNotification(options: {
  readonly post: Post;
  readonly clock: Clock;
  readonly tracing?: Tracing | undefined;
}): PostNotification {
  const { post, clock, tracing = noTracing } = options;
  return (work, secrets) => {
    const { tenantId, url, notificationId: id } = work;
    const body = notificationBody(work, clock.nowMs());
    return post({ tenantId, url, id, body, secrets, traced: tracing.notifying(work) });
  };
}

export function notificationBody(work: AvailableWork, nowMs: number): string {
  const { eventType, queueDepth, notificationId, subscriptionId } = work;
  const body: WireOf<typeof NotificationBody> = {
    eventType,
    available: true,
    queueDepth,
    claimUrl,
    sentAt: utcSeconds(nowMs),
    notificationId,
    subscriptionId,
  };
  return JSON.stringify(body);
}

/** Where a subscriber asks for the tasks. */
const claimUrl = "/v1/codeq/tasks/claim";

export interface NotifyParts {
  readonly broker: Pick<Broker, "watchWork" | "work" | "worksOf" | "webhooks">;
  readonly subscriptions: Subscriptions;
  readonly clock: Clock;
  readonly events: Events;
  readonly logger: Logger;
  readonly limiter: Limiter;
  readonly config: Pick<Config, "subscriptionMinIntervalSeconds">;
  readonly randomBytes: RandomBytes;
  readonly notify: PostNotification;
}

/** Subscribers have their own breakers, so one target for each tenant is enough. */
const limits = {
  inFlightMax: 256,
  keptForIdleTenants: 0,
  perTenantMax: 64,
  keptForKnownEndpoints: 0,
  perEndpointMax: 64,
  perNewEndpointMax: 64,
  targetWaitingMax: Number.POSITIVE_INFINITY,
  tenantWaitingMax: Number.POSITIVE_INFINITY,
  idleTargetsMax: 0,
};
const toTenant = { endpoint: "", overMs: Number.POSITIVE_INFINITY };
/** Audiences that are checked in one run of the job. */
const looksMax = 1000;
const triesMax = 3;
/** How long a subscriber is not notified after so many failures in a row. */
const breakerLimits = {
  failuresMax: 1,
  waitsMs: [1000, 3000, 5000, 10_000, 20_000, 40_000, 60_000],
};

interface WatchedTenant {
  readonly queues: Map<string, WatchedQueue>;
  /** Subscribers to every queue. */
  readonly every: Set<Subscriber>;
}

interface DueNotification extends Outgoing {
  readonly audience: Audience;
}

export class NotifySubscribers {
  readonly name = "notify-subscribers";
  /** Called when something may be due. */
  onDue: () => void = () => {};
  readonly #parts: NotifyParts;
  readonly #ids: TaskIds;
  readonly #warnings: SpacedWarnings;
  readonly #tenants: Map<TenantId, WatchedTenant> = new Map();
  readonly #due: IndexedHeap<Audience> = new IndexedHeap();
  readonly #sender: Sender<DueNotification>;
  /** Subscribers with an open request, and the audiences that wait for its end. */
  readonly #busy: Map<Subscriber, Set<Audience>> = new Map();
  /** Only of subscribers that failed, or that a rate limit delays. */
  readonly #breakers: WeakMap<Subscriber, CircuitBreaker> = new WeakMap();
  readonly #secrets: Map<TenantId, readonly SigningSecret[]> = new Map();

  constructor(parts: NotifyParts) {
    this.#parts = parts;
    this.#ids = new TaskIds(parts.randomBytes);
    this.#warnings = new SpacedWarnings(parts.logger, parts.clock);
    const { clock, subscriptions } = parts;
    this.#sender = new Sender({ clock, limits, send: ({ audience }) => this.#look(audience) });
    this.#sender.onFree = () => this.onDue();
    subscriptions.onAdded = (subscriber) => this.#add(subscriber);
    subscriptions.onRemoved = (subscriber) => this.#remove(subscriber);
    for (const subscriber of subscriptions.active()) this.#add(subscriber);
  }

  nextMs(): number | undefined {
    if (!this.#parts.subscriptions.isInCharge) return undefined;
    return this.#sender.nextMs() ?? this.#due.peek()?.dueMs;
  }

  /** Starts what is due and does not wait for it. */
  async runOnce(): Promise<void> {
    const nowMs = this.#parts.clock.monotonicMs();
    for (let looks = 0; looks < looksMax; looks += 1) {
      const audience = this.#due.peek();
      if (audience === undefined || audience.dueMs > nowMs) break;
      this.#due.remove(audience);
      if (audience.isWaiting) continue;
      audience.isWaiting = true;
      this.#sender.add({ ...toTenant, tenantId: audience.watched.tenantId, audience });
    }
    this.#sender.run(looksMax);
  }

  /** Waits for what is under way; nothing new begins. */
  settle(): Promise<void> {
    this.#parts.broker.watchWork(undefined);
    return this.#sender.settle();
  }

  #moved(queue: QueueWork): void {
    const tenant = this.#tenants.get(queue.tenantId);
    if (tenant === undefined) return;
    const hasWork = queue.topPriority >= 0;
    let watched = tenant.queues.get(queue.name);
    if (watched === undefined) {
      if (!hasWork || tenant.every.size === 0) return;
      watched = this.#watch(tenant, queue);
    }
    if (watched.hasWork === hasWork) return;
    watched.hasWork = hasWork;
    if (hasWork) this.#begin(watched);
  }

  #begin(watched: WatchedQueue): void {
    watched.beginnings += 1;
    for (const audience of watched.asleep) this.#schedule(audience);
    watched.asleep.clear();
    // An audience with an open request schedules itself.
    for (const audience of watched.shared) if (audience.heapIndex >= 0) this.#schedule(audience);
    this.onDue();
  }

  /** Notifies a member if the queue has work and the member may be notified now. */
  #look(audience: Audience): Promise<Ending> | undefined {
    audience.isWaiting = false;
    const { watched } = audience;
    const { broker, clock, subscriptions } = this.#parts;
    const nowMs = clock.monotonicMs();
    if (audience.members.length === 0) return undefined;
    const work = broker.work(watched);
    if (work === undefined || work.topPriority < 0) {
      this.#sleep(audience);
      return undefined;
    }
    if (!watched.hasWork) {
      watched.hasWork = true;
      this.#begin(watched);
    }
    if (audience.notifiedBeginnings === watched.beginnings && audience.againMs > nowMs) {
      this.#schedule(audience, audience.againMs);
      return undefined;
    }
    let earliestMs = Number.POSITIVE_INFINITY;
    for (const member of audience.inOrder(clock.nowMs())) {
      if (!subscriptions.isActive(member)) continue;
      const readyMs = this.#readyMs(audience, member);
      if (readyMs <= nowMs) return this.#notify(audience, member, work.readyTotal);
      earliestMs = Math.min(earliestMs, readyMs);
    }
    // Without a time a member is busy, and the end of its request schedules this audience, or all have expired.
    if (earliestMs !== Number.POSITIVE_INFINITY) this.#schedule(audience, earliestMs);
    return undefined;
  }

  /** The queue has no work. A queue that no subscription names is forgotten when all its audiences sleep. */
  #sleep(audience: Audience): void {
    const { watched } = audience;
    watched.hasWork = false;
    watched.asleep.add(audience);
    const tenant = this.#tenants.get(watched.tenantId);
    if (tenant === undefined || watched.asleep.size < watched.audiences.size) return;
    const isNamed = [...watched.audiences.values()].some(({ members }) =>
      members.some(({ subscription }) => queuesOf(subscription) !== undefined),
    );
    if (!isNamed) tenant.queues.delete(watched.name);
  }

  /** When the member may be notified: after its interval, its breaker and its rate limit. */
  #readyMs(audience: Audience, member: Subscriber): number {
    const waiting = this.#busy.get(member);
    if (waiting !== undefined) {
      waiting.add(audience);
      return Number.POSITIVE_INFINITY;
    }
    const { clock } = this.#parts;
    const nowMs = clock.monotonicMs();
    const notifiedMs = audience.notifiedMs.get(member) ?? Number.NEGATIVE_INFINITY;
    const silentMs = this.#breakers.get(member)?.untilMs ?? Number.NEGATIVE_INFINITY;
    const readyMs = Math.max(notifiedMs + this.#intervalMs(member), silentMs);
    if (readyMs > nowMs) return readyMs;
    const { tenantId, callbackUrl: url } = member.subscription;
    const waitMs = waitForLimit(this.#parts, "queue_ready", { tenantId, url });
    if (waitMs === 0) return readyMs;
    this.#breakerOf(member).hold(nowMs + waitMs);
    return nowMs + waitMs;
  }

  /**
   * After a restart the last notification counts for every queue of the subscriber. The monotonic time is
   * computed once: a wall clock that was set back would put it off again and again.
   */
  #rememberTurn(audience: Audience, member: Subscriber): void {
    const { notifiedMs, isRecovered } = member;
    if (!isRecovered || notifiedMs === 0) return;
    const { clock } = this.#parts;
    audience.notifiedMs.set(member, clock.monotonicMs() - Math.max(0, clock.nowMs() - notifiedMs));
  }

  #breakerOf(member: Subscriber): CircuitBreaker {
    const breaker = this.#breakers.get(member) ?? new CircuitBreaker(breakerLimits);
    this.#breakers.set(member, breaker);
    return breaker;
  }

  #intervalMs({ subscription }: Subscriber): number {
    const { subscriptionMinIntervalSeconds: floor } = this.#parts.config;
    return Math.max(subscription.minIntervalSeconds, floor) * 1000;
  }

  async #notify(audience: Audience, member: Subscriber, queueDepth: number): Promise<Ending> {
    const { clock, subscriptions, notify } = this.#parts;
    const nowMs = clock.monotonicMs();
    const { watched } = audience;
    audience.notifiedMs.set(member, nowMs);
    audience.notifiedBeginnings = watched.beginnings;
    audience.againMs = nowMs + this.#intervalMs(member);
    audience.notification ??= { id: `ntf_${this.#ids.next(clock.nowMs())}`, tries: 0 };
    audience.notification.tries += 1;
    subscriptions.takeTurn(member);
    this.#schedule(audience, audience.againMs);
    this.#busy.set(member, new Set());
    const { id: subscriptionId, tenantId, callbackUrl: url } = member.subscription;
    const { id: notificationId } = audience.notification;
    const eventType = spellingOf(member, watched.name);
    const answer = await answerTo(async () => {
      const secrets = signingNow(await this.#secretsOf(tenantId), clock.nowMs());
      const work = { tenantId, url, subscriptionId, notificationId, eventType, queueDepth };
      return notify(work, secrets);
    });
    this.#answered(audience, member, answer);
    this.#free(member);
    return undefined;
  }

  /** While a shard is down, the secrets that were read last. */
  async #secretsOf(tenantId: TenantId): Promise<readonly SigningSecret[]> {
    try {
      const secrets = await this.#parts.broker.webhooks.secrets(tenantId);
      if (secrets.length === 0) this.#secrets.delete(tenantId);
      else this.#secrets.set(tenantId, secrets);
      return secrets;
    } catch (error) {
      if (error instanceof FaultError) return this.#secrets.get(tenantId) ?? [];
      throw error;
    }
  }

  #answered(audience: Audience, member: Subscriber, answer: Answer): void {
    const { events, clock } = this.#parts;
    const { watched, notification } = audience;
    if (isSuccess(answer)) {
      this.#breakers.delete(member);
      audience.notification = undefined;
      events.notified(watched.name, "success");
      return;
    }
    this.#breakerOf(member).failed(clock.monotonicMs());
    audience.notifiedMs.delete(member);
    audience.againMs = Number.NEGATIVE_INFINITY;
    if (notification !== undefined && notification.tries >= triesMax) {
      audience.notification = undefined;
      events.notified(watched.name, "failure");
      const { id: subscriptionId, tenantId } = member.subscription;
      const why = whyOf(answer);
      this.#warnings.warn("notification given up", { subscriptionId, tenantId, why });
    }
    if (audience.heapIndex >= 0) this.#schedule(audience);
  }

  /** The subscriber can be notified of something else. */
  #free(member: Subscriber): void {
    for (const audience of this.#busy.get(member) ?? []) {
      if (audience.members.length > 0 && audience.heapIndex < 0) this.#schedule(audience);
    }
    this.#busy.delete(member);
  }

  #schedule(audience: Audience, dueMs: number = this.#parts.clock.monotonicMs()): void {
    audience.dueMs = dueMs;
    if (audience.heapIndex >= 0) this.#due.update(audience);
    else this.#due.push(audience);
  }

  #add(subscriber: Subscriber): void {
    const { subscription } = subscriber;
    const { tenantId } = subscription;
    const { broker } = this.#parts;
    if (this.#tenants.size === 0) broker.watchWork((each) => this.#moved(each));
    let tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) {
      tenant = { queues: new Map(), every: new Set() };
      this.#tenants.set(tenantId, tenant);
    }
    const names = queuesOf(subscription);
    if (names === undefined) {
      for (const watched of tenant.queues.values()) this.#join(watched, subscriber);
      tenant.every.add(subscriber);
      for (const work of broker.worksOf(tenantId)) this.#moved(work);
    } else {
      for (const name of names) {
        const watched = tenant.queues.get(name) ?? this.#watch(tenant, { tenantId, name });
        this.#join(watched, subscriber);
      }
    }
    this.onDue();
  }

  #watch(tenant: WatchedTenant, { tenantId, name }: { tenantId: TenantId; name: string }) {
    const watched = new WatchedQueue(tenantId, name);
    tenant.queues.set(name, watched);
    for (const subscriber of tenant.every) this.#join(watched, subscriber);
    return watched;
  }

  #join(watched: WatchedQueue, subscriber: Subscriber): void {
    const { subscription } = subscriber;
    const name = audienceName(subscription);
    let audience = watched.audiences.get(name);
    if (audience === undefined) {
      audience = new Audience(watched, subscription.mode);
      watched.audiences.set(name, audience);
      if (subscription.mode !== "fanout") watched.shared.add(audience);
    }
    audience.add(subscriber);
    this.#rememberTurn(audience, subscriber);
    watched.asleep.delete(audience);
    this.#schedule(audience);
  }

  #remove(subscriber: Subscriber): void {
    const { subscription } = subscriber;
    const tenant = this.#tenants.get(subscription.tenantId);
    if (tenant === undefined) return;
    tenant.every.delete(subscriber);
    const names = queuesOf(subscription) ?? [...tenant.queues.keys()];
    for (const name of names) {
      const watched = tenant.queues.get(name);
      if (watched !== undefined) this.#part(tenant, watched, subscriber);
    }
    if (tenant.queues.size > 0 || tenant.every.size > 0) return;
    this.#tenants.delete(subscription.tenantId);
    // Without subscribers the broker does not report work.
    if (this.#tenants.size === 0) this.#parts.broker.watchWork(undefined);
  }

  #part(tenant: WatchedTenant, watched: WatchedQueue, subscriber: Subscriber): void {
    const name = audienceName(subscriber.subscription);
    const audience = watched.audiences.get(name);
    if (audience === undefined || audience.remove(subscriber)) return;
    watched.audiences.delete(name);
    watched.asleep.delete(audience);
    watched.shared.delete(audience);
    this.#due.remove(audience);
    if (watched.audiences.size === 0) tenant.queues.delete(watched.name);
  }
}

/** The command as the subscriber wrote it, or the name of the queue. */
function spellingOf({ subscription }: Subscriber, name: string): string {
  return subscription.eventTypes.find((each) => each.toLowerCase() === name) ?? name;
}
