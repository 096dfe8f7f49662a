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
import type { TenantId } from "@codeq/queue";
import type { Limiter } from "../access/limiter.ts";
import { IndexedHeap } from "../broker/indexed-heap.ts";
import type { Queue, QueueWork } from "../broker/queue.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/settings.ts";
import { type SigningSecret, signingNow } from "../store/signing-record.ts";
import { Audience, audienceName, WatchedQueue } from "../subscriptions/audience.ts";
import { queuesOf, type Subscriber, type Subscriptions } from "../subscriptions/subscriptions.ts";
import { type RandomBytes, TaskIds } from "../task-ids.ts";
import type { Events } from "../telemetry/events.ts";
import type { Logger } from "../telemetry/logger.ts";
import { SpacedWarnings } from "../telemetry/spaced-warnings.ts";
import type { NoAnswer } from "./deliver-webhooks.ts";
import type { Job } from "./ticker.ts";

/** What a subscriber is told. */
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

/**
 * The status of the answer, or why there is none, if that is known. The tenant's own secrets sign it, the newest
 * first; without any, those of the configuration do.
 */
export type PostNotification = (
  work: AvailableWork,
  secrets: readonly string[],
) => Promise<number | NoAnswer | undefined>;

export interface NotifyParts {
  readonly queue: Pick<Queue, "watchWork" | "work" | "worksOf" | "webhooks">;
  readonly subscriptions: Subscriptions;
  readonly clock: Clock;
  readonly events: Events;
  readonly logger: Logger;
  readonly limiter: Limiter;
  readonly config: Pick<Config, "subscriptionMinIntervalSeconds">;
  readonly randomBytes: RandomBytes;
  readonly notify: PostNotification;
}

/** At once: of all tenants, and of one. */
const inFlightMax = 256;
const inFlightPerTenantMax = 64;
/** Looked at in one turn of the ticker. */
const looksMax = 1000;
const triesMax = 3;
/** How long a subscriber is left alone after so many failures in a row. */
const silentMs = [1000, 3000, 5000, 10_000, 20_000, 40_000, 60_000];

interface WatchedTenant {
  readonly queues: Map<string, WatchedQueue>;
  /** Want to hear of every queue. */
  readonly every: Set<Subscriber>;
  /** Have somebody to tell, and wait until others were told. */
  readonly waiting: Set<Audience>;
  inFlight: number;
}

interface Telling {
  readonly tenant: WatchedTenant;
  readonly audience: Audience;
  readonly member: Subscriber;
}

interface Trouble {
  failures: number;
  /** On the monotonic clock. */
  untilMs: number;
}

export class NotifySubscribers implements Job {
  readonly name = "notify-subscribers";
  /** Called when something may be due. */
  onDue: () => void = () => {};
  readonly #parts: NotifyParts;
  readonly #ids: TaskIds;
  readonly #warnings: SpacedWarnings;
  readonly #tenants: Map<TenantId, WatchedTenant> = new Map();
  readonly #due: IndexedHeap<Audience> = new IndexedHeap();
  readonly #waitingTenants: Set<WatchedTenant> = new Set();
  /** Subscribers that are being told, and the audiences that wait for that. */
  readonly #busy: Map<Subscriber, Set<Audience>> = new Map();
  readonly #troubles: Map<Subscriber, Trouble> = new Map();
  readonly #inFlight: Set<Promise<void>> = new Set();
  readonly #secrets: Map<TenantId, readonly SigningSecret[]> = new Map();

  constructor(parts: NotifyParts) {
    this.#parts = parts;
    this.#ids = new TaskIds(parts.randomBytes);
    this.#warnings = new SpacedWarnings(parts.logger, parts.clock);
    const { subscriptions } = parts;
    subscriptions.onAdded = (subscriber) => this.#add(subscriber);
    subscriptions.onRemoved = (subscriber) => this.#remove(subscriber);
    for (const subscriber of subscriptions.active()) this.#add(subscriber);
  }

  nextMs(): number | undefined {
    return this.#parts.subscriptions.isInCharge ? this.#due.peek()?.dueMs : undefined;
  }

  /** Starts what is due and does not wait for it. */
  async runOnce(): Promise<void> {
    const nowMs = this.#parts.clock.monotonicMs();
    for (let looks = 0; looks < looksMax; looks += 1) {
      const audience = this.#due.peek();
      if (audience === undefined || audience.dueMs > nowMs) break;
      this.#due.remove(audience);
      this.#look(audience, nowMs);
    }
    this.#serveWaiting();
  }

  /** Waits for what is under way; nothing new begins. */
  async settle(): Promise<void> {
    this.#parts.queue.watchWork(undefined);
    await Promise.all(this.#inFlight);
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
    // What is in flight comes back by itself.
    for (const audience of watched.shared) if (audience.heapIndex >= 0) this.#schedule(audience);
    this.onDue();
  }

  #look(audience: Audience, nowMs: number): void {
    const { watched } = audience;
    const { queue, clock, subscriptions } = this.#parts;
    const work = queue.work(watched);
    if (work === undefined || work.topPriority < 0) {
      this.#sleep(audience);
      return;
    }
    if (!watched.hasWork) {
      watched.hasWork = true;
      this.#begin(watched);
    }
    if (audience.toldBeginnings === watched.beginnings && audience.againMs > nowMs) {
      this.#schedule(audience, audience.againMs);
      return;
    }
    const tenant = this.#tenants.get(watched.tenantId) as WatchedTenant;
    if (!this.#hasSlot(tenant)) {
      tenant.waiting.add(audience);
      this.#waitingTenants.add(tenant);
      return;
    }
    let earliestMs = Number.POSITIVE_INFINITY;
    for (const member of audience.inOrder(clock.nowMs())) {
      if (!subscriptions.isActive(member)) continue;
      const readyMs = this.#readyMs(audience, member);
      if (readyMs <= nowMs) {
        this.#tell({ tenant, audience, member }, work.readyTotal);
        return;
      }
      earliestMs = Math.min(earliestMs, readyMs);
    }
    // Without a time somebody is busy, whose end is waited for, or all have run out.
    if (earliestMs !== Number.POSITIVE_INFINITY) this.#schedule(audience, earliestMs);
  }

  /** There is nothing to tell; a queue that nobody named is forgotten when all of its audiences sleep. */
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

  /** When the member may be told: when its interval is over, and its silence. */
  #readyMs(audience: Audience, member: Subscriber): number {
    const waiting = this.#busy.get(member);
    if (waiting !== undefined) {
      waiting.add(audience);
      return Number.POSITIVE_INFINITY;
    }
    const nowMs = this.#parts.clock.monotonicMs();
    const trouble = this.#troubles.get(member);
    const quietMs = trouble?.untilMs ?? Number.NEGATIVE_INFINITY;
    const toldMs = audience.toldMs.get(member) ?? Number.NEGATIVE_INFINITY;
    const readyMs = Math.max(toldMs + this.#intervalMs(member), quietMs);
    return readyMs <= nowMs && this.#isLimited(member) ? this.#quietMs(member) : readyMs;
  }

  /**
   * After a restart the last turn counts for every queue of the subscriber. It is reckoned once: a wall clock
   * that was set back would put it off again and again.
   */
  #rememberTurn(audience: Audience, member: Subscriber): void {
    const { toldMs, isRecovered } = member;
    if (!isRecovered || toldMs === 0) return;
    const { clock } = this.#parts;
    audience.toldMs.set(member, clock.monotonicMs() - Math.max(0, clock.nowMs() - toldMs));
  }

  /** Whether a rate limit forbids it now; its time is remembered. */
  #isLimited(member: Subscriber): boolean {
    const { limiter, events, clock } = this.#parts;
    const { tenantId, callbackUrl } = member.subscription;
    const allowance = limiter.of("webhook", { tenantId, subject: callbackUrl });
    if (allowance === undefined || allowance.take(1) === 0) return false;
    events.rateLimited("webhook", "queue_ready");
    const failures = this.#troubles.get(member)?.failures ?? 0;
    const untilMs = clock.monotonicMs() + Math.max(allowance.waitInLineMs(), 1);
    this.#troubles.set(member, { failures, untilMs });
    return true;
  }

  #quietMs(member: Subscriber): number {
    return this.#troubles.get(member)?.untilMs ?? 0;
  }

  #intervalMs({ subscription }: Subscriber): number {
    const { subscriptionMinIntervalSeconds: floor } = this.#parts.config;
    return Math.max(subscription.minIntervalSeconds, floor) * 1000;
  }

  #tell({ tenant, audience, member }: Telling, queueDepth: number): void {
    const { clock, subscriptions } = this.#parts;
    const nowMs = clock.monotonicMs();
    const { watched } = audience;
    audience.toldMs.set(member, nowMs);
    audience.toldBeginnings = watched.beginnings;
    audience.againMs = nowMs + this.#intervalMs(member);
    audience.notification ??= { id: `ntf_${this.#ids.next(clock.nowMs())}`, tries: 0 };
    audience.notification.tries += 1;
    subscriptions.take([member]);
    this.#schedule(audience, audience.againMs);
    tenant.inFlight += 1;
    this.#busy.set(member, new Set());
    const { subscription } = member;
    const telling = this.#post({
      tenantId: watched.tenantId,
      url: subscription.callbackUrl,
      subscriptionId: subscription.id,
      notificationId: audience.notification.id,
      eventType: spellingOf(member, watched.name),
      queueDepth,
    })
      .then((answer) => this.#answered(audience, member, answer))
      .finally(() => {
        this.#inFlight.delete(telling);
        tenant.inFlight -= 1;
        this.#free(member);
      });
    this.#inFlight.add(telling);
  }

  /** However sending goes wrong, it is a try without an answer. */
  async #post(work: AvailableWork): Promise<number | NoAnswer> {
    try {
      const { clock, notify } = this.#parts;
      const secrets = await this.#secretsOf(work.tenantId);
      const answer = await notify(work, signingNow(secrets, clock.nowMs()));
      return answer ?? { why: "there was no answer" };
    } catch (error) {
      return { why: String(error) };
    }
  }

  /** While a shard is away, those that were known last. */
  async #secretsOf(tenantId: TenantId): Promise<readonly SigningSecret[]> {
    try {
      const secrets = await this.#parts.queue.webhooks.secrets(tenantId);
      if (secrets.length === 0) this.#secrets.delete(tenantId);
      else this.#secrets.set(tenantId, secrets);
      return secrets;
    } catch (error) {
      if (error instanceof FaultError) return this.#secrets.get(tenantId) ?? [];
      throw error;
    }
  }

  #answered(audience: Audience, member: Subscriber, answer: number | NoAnswer): void {
    const { events, clock } = this.#parts;
    const { watched, notification } = audience;
    if (typeof answer === "number" && answer >= 200 && answer < 300) {
      this.#troubles.delete(member);
      audience.notification = undefined;
      events.notified(watched.name, "success");
      return;
    }
    const failures = (this.#troubles.get(member)?.failures ?? 0) + 1;
    const waitMs = silentMs[Math.min(failures, silentMs.length) - 1] as number;
    const nowMs = clock.monotonicMs();
    this.#troubles.set(member, { failures, untilMs: nowMs + waitMs });
    audience.toldMs.delete(member);
    audience.againMs = Number.NEGATIVE_INFINITY;
    if (notification !== undefined && notification.tries >= triesMax) {
      audience.notification = undefined;
      events.notified(watched.name, "failure");
      const why = typeof answer === "number" ? `the answer was ${answer}` : answer.why;
      const { id: subscriptionId, tenantId } = member.subscription;
      this.#warnings.warn("notification given up", { subscriptionId, tenantId, why });
    }
    if (audience.heapIndex >= 0) this.#schedule(audience);
  }

  /** The subscriber can be told something else, and somebody else can be told something. */
  #free(member: Subscriber): void {
    for (const audience of this.#busy.get(member) ?? []) {
      if (audience.members.length > 0 && audience.heapIndex < 0) this.#schedule(audience);
    }
    this.#busy.delete(member);
    this.#serveWaiting();
    this.#forgetIfIdle(member.subscription.tenantId);
    this.onDue();
  }

  #hasSlot({ inFlight }: WatchedTenant): boolean {
    return this.#inFlight.size < inFlightMax && inFlight < inFlightPerTenantMax;
  }

  /** Looks again at as many audiences as can be told; tenants take turns. */
  #serveWaiting(): void {
    let free = inFlightMax - this.#inFlight.size;
    for (const tenant of [...this.#waitingTenants]) {
      let ofTenant = Math.min(free, inFlightPerTenantMax - tenant.inFlight);
      for (const audience of tenant.waiting) {
        if (ofTenant <= 0) break;
        tenant.waiting.delete(audience);
        this.#schedule(audience);
        ofTenant -= 1;
        free -= 1;
      }
      this.#waitingTenants.delete(tenant);
      if (tenant.waiting.size > 0) this.#waitingTenants.add(tenant);
    }
  }

  #schedule(audience: Audience, dueMs: number = this.#parts.clock.monotonicMs()): void {
    audience.dueMs = dueMs;
    if (audience.heapIndex >= 0) this.#due.update(audience);
    else this.#due.push(audience);
  }

  #add(subscriber: Subscriber): void {
    const { subscription } = subscriber;
    const { tenantId } = subscription;
    const { queue } = this.#parts;
    if (this.#tenants.size === 0) queue.watchWork((each) => this.#moved(each));
    let tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) {
      tenant = { queues: new Map(), every: new Set(), waiting: new Set(), inFlight: 0 };
      this.#tenants.set(tenantId, tenant);
    }
    const names = queuesOf(subscription);
    if (names === undefined) {
      for (const watched of tenant.queues.values()) this.#join(watched, subscriber);
      tenant.every.add(subscriber);
      for (const work of queue.worksOf(tenantId)) this.#moved(work);
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
    this.#troubles.delete(subscriber);
    const names = queuesOf(subscription) ?? [...tenant.queues.keys()];
    for (const name of names) {
      const watched = tenant.queues.get(name);
      if (watched !== undefined) this.#part(tenant, watched, subscriber);
    }
    this.#forgetIfIdle(subscription.tenantId);
  }

  /** Without subscribers nobody watches the queues. */
  #forgetIfIdle(tenantId: TenantId): void {
    const tenant = this.#tenants.get(tenantId);
    if (tenant === undefined || tenant.inFlight > 0) return;
    if (tenant.queues.size > 0 || tenant.every.size > 0) return;
    this.#tenants.delete(tenantId);
    this.#waitingTenants.delete(tenant);
    if (this.#tenants.size === 0) this.#parts.queue.watchWork(undefined);
  }

  #part(tenant: WatchedTenant, watched: WatchedQueue, subscriber: Subscriber): void {
    const name = audienceName(subscriber.subscription);
    const audience = watched.audiences.get(name);
    if (audience === undefined || audience.remove(subscriber)) return;
    watched.audiences.delete(name);
    watched.asleep.delete(audience);
    watched.shared.delete(audience);
    tenant.waiting.delete(audience);
    this.#due.remove(audience);
    if (watched.audiences.size === 0) tenant.queues.delete(watched.name);
  }
}

/** The command as the subscriber wrote it, or the name of the queue. */
function spellingOf({ subscription }: Subscriber, name: string): string {
  return subscription.eventTypes.find((each) => each.toLowerCase() === name) ?? name;
}
