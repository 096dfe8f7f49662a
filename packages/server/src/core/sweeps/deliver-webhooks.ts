/**
 * Posts results to the URLs that producers gave. A webhook is a key that is written with the result and
 * deleted when the webhook was delivered or given up, so a restart loses none. Delivery is at least once:
 * receivers recognise repeats by `taskId`. Every try counts, also one that throws.
 *
 * Keys are read in order of their times and handed to the sender. A webhook for which the sender has no room
 * stays in the store: reading continues behind it, and goes back to it when there is room again.
 */
import { queueOf, type Result, type Task, type TenantId } from "@codeq/queue";
import type { Config } from "../../config/settings.ts";
import type { Events } from "../../telemetry/events.ts";
import { type Logger, SpacedWarnings } from "../../telemetry/logger.ts";
import { noTracing, type Tracing } from "../../telemetry/tracing/tracing.ts";
import type { ShardBroker } from "../broker/shard-broker.ts";
import type { Delivered } from "../broker/webhooks.ts";
import type { Clock } from "../clock.ts";
import type { Limiter } from "../limiter/limiter.ts";
import { type Answer, answerTo, isSuccess, type Post, whyOf } from "../outbound/post.ts";
import {
  breakerLimits,
  type Ending,
  type Full,
  type Outgoing,
  Sender,
  type SenderLimits,
  waitForLimit,
} from "../outbound/sender.ts";
import {
  firstWebhook,
  lastWebhook,
  type WebhookJob,
  webhooksFrom,
} from "../records/delivery-record.ts";
import type { RecordWrite } from "../store/store.ts";
import type { Timestamps } from "../timestamps.ts";
import type { Job } from "./ticker.ts";

/** Posts the webhook of a task for the n-th time; the secrets of its tenant sign it. */
export type PostWebhook = (
  task: Task,
  result: Result,
  attempt: number,
  secrets: readonly string[],
) => Promise<Answer | undefined>;

export function createPostWebhook(options: {
  readonly post: Post;
  readonly timestamps: Timestamps;
  readonly tracing?: Tracing | undefined;
}): PostWebhook {
  const { post, timestamps, tracing = noTracing } = options;
  return async (task, result, attempt, secrets) =>
    post({
      tenantId: task.tenantId,
      url: task.webhook,
      // Another result of the same task is another message.
      id: `msg_${task.id}_${result.completedMs.toString(36)}`,
      body: webhookBody(task, result, timestamps),
      secrets,
      traced: tracing.posting(task, attempt),
    });
}

function webhookBody(task: Task, result: Result, timestamps: Timestamps): string {
  const json = result.resultJson === "" ? "null" : result.resultJson;
  return (
    `{"taskId":"${task.id}","eventType":"${task.command}","status":"${result.status}",` +
    `"result":${json},"error":${JSON.stringify(result.error)},` +
    `"artifacts":${JSON.stringify(result.artifacts)},` +
    `"completedAt":"${timestamps.local(result.completedMs)}"}`
  );
}

/**
 * What one of several shards may have in flight, so that all of them together have no more than one shard
 * alone would. A shard has at least one slot for an endpoint.
 */
export function webhookLimits(shards: number): SenderLimits {
  const share = (slots: number): number => Math.max(1, Math.floor(slots / shards));
  const kept = (slots: number): number => Math.floor(slots / shards);
  return {
    inFlightMax: share(128),
    keptForIdleTenants: kept(32),
    perTenantMax: share(48),
    keptForKnownEndpoints: kept(16),
    perEndpointMax: share(16),
    perNewEndpointMax: share(2),
    targetWaitingMax: 128,
    tenantWaitingMax: 4096,
    idleTargetsMax: 10_000,
  };
}

const pageMax = 128;

interface DueWebhook extends WebhookJob, Outgoing {}

/** A tenant, or an endpoint of it, with webhooks in the store for which there was no room. */
interface Unread {
  readonly tenantId: TenantId;
  readonly endpoint: string | undefined;
  /** The first of them. */
  readonly from: string;
}

/** A scan of the store for targets that have room again. */
interface Rereading {
  cursor: string;
  readonly names: readonly string[];
}

export interface WebhookParts {
  readonly broker: ShardBroker;
  readonly clock: Clock;
  readonly events: Events;
  readonly logger: Logger;
  readonly config: Config;
  readonly post: PostWebhook;
  readonly limiter: Limiter;
}

export class DeliverWebhooks implements Job {
  readonly name = "deliver-webhooks";
  readonly #parts: WebhookParts;
  readonly #warnings: SpacedWarnings;
  readonly #sender: Sender<DueWebhook>;
  /** Keys of webhooks that the sender has. */
  readonly #sending: Set<string> = new Set();
  /** Everything up to this key was read. */
  #readTo: string = firstWebhook;
  /** The first key that was planned since reading began, and may be missing in the page. */
  #plannedFrom: string = firstWebhook;
  /** On the wall clock: when a webhook behind that key is due. */
  #nextMs = 0;
  readonly #unread: Map<string, Unread> = new Map();
  /** The scan for keys that the sender had no room for. */
  #again: Rereading | undefined;

  constructor(parts: WebhookParts) {
    this.#parts = parts;
    this.#warnings = new SpacedWarnings(parts.logger, parts.clock);
    this.#sender = new Sender({
      clock: parts.clock,
      limits: webhookLimits(parts.config.shards),
      send: (webhook) => this.#send(webhook),
      // They are read again before they are given up: if the storage refuses writes, the ticker has to notice.
      onOver: (webhooks) => {
        for (const { key, dueMs } of webhooks) {
          this.#sending.delete(key);
          this.plan(dueMs);
        }
      },
      onTurned: ({ tenantId, endpoint }, turned) => {
        const fields = { tenantId, endpoint };
        if (turned === "answering") parts.logger.info("webhook endpoint responds again", fields);
        else
          this.#warnings.warn("webhook endpoint does not respond; sending one at a time", fields);
      },
    });
  }

  /** Called when a delivery has ended, so that another one may be due. */
  set onIdle(run: () => void) {
    this.#sender.onFree = run;
  }

  /** A webhook is due at this moment. */
  plan(wallMs: number): void {
    this.#nextMs = Math.min(this.#nextMs, wallMs);
    // Reads on after the last key, unless the clock was set back or both keys have the same moment.
    const from = webhooksFrom(Math.floor(wallMs));
    if (from < this.#readTo) this.#readTo = from;
    if (from < this.#plannedFrom) this.#plannedFrom = from;
  }

  nextMs(): number | undefined {
    const { clock } = this.#parts;
    const nowMs = clock.monotonicMs();
    if (this.#again !== undefined || this.#mayReadAgain()) return nowMs;
    const senderMs = this.#sender.nextMs() ?? Number.POSITIVE_INFINITY;
    const nextMs = Math.min(senderMs, nowMs + this.#nextMs - clock.nowMs());
    return nextMs === Number.POSITIVE_INFINITY ? undefined : nextMs;
  }

  /** Starts what is due and does not wait for it. */
  async runOnce(): Promise<void> {
    if (this.#nextMs <= this.#parts.clock.nowMs()) await this.#readOn();
    await this.#readAgain();
    this.#sender.run();
  }

  /** Waits for what is under way; nothing new begins. */
  settle(): Promise<void> {
    return this.#sender.settle();
  }

  /** A page of what was never read. */
  async #readOn(): Promise<void> {
    const { broker, clock } = this.#parts;
    this.#nextMs = Number.POSITIVE_INFINITY;
    this.#plannedFrom = lastWebhook;
    const range = { after: this.#readTo, before: lastWebhook };
    const entries = await broker.store.webhooks(range, pageMax);
    const wallMs = clock.nowMs();
    const due = entries.filter(({ dueMs }) => dueMs <= wallMs);
    const plannedMs = this.#nextMs;
    // Accepting may throw; then the page is read again.
    this.#nextMs = 0;
    this.#accept(due);
    this.#nextMs = plannedMs;
    const later = entries[due.length];
    const last = due.at(-1)?.key;
    if (last !== undefined) this.#readTo = last;
    if (this.#plannedFrom < this.#readTo) this.#readTo = this.#plannedFrom;
    if (later !== undefined) this.#nextMs = Math.min(this.#nextMs, later.dueMs);
    else if (entries.length === pageMax) this.#nextMs = 0;
  }

  /** A page of what was read when there was no room for it. */
  async #readAgain(): Promise<void> {
    this.#again ??= this.#startOver();
    const again = this.#again;
    if (again === undefined) return;
    const range = { after: again.cursor, before: `${this.#readTo}~` };
    const entries = await this.#parts.broker.store.webhooks(range, pageMax);
    this.#accept(entries);
    again.cursor = entries.at(-1)?.key ?? again.cursor;
    const isFull = again.names.every((name) => this.#unread.has(name));
    if (entries.length < pageMax || isFull) this.#again = undefined;
  }

  #mayReadAgain(): boolean {
    for (const unread of this.#unread.values()) if (this.#sender.hasRoom(unread)) return true;
    return false;
  }

  /** Where to read again for targets that have room. */
  #startOver(): Rereading | undefined {
    const roomy = [...this.#unread].filter(([, unread]) => this.#sender.hasRoom(unread));
    const [first] = roomy.map(([, { from }]) => from).sort();
    if (first === undefined) return undefined;
    const names = roomy.map(([name]) => name);
    for (const name of names) this.#unread.delete(name);
    // The key itself is read too.
    return { cursor: first.slice(0, -1), names };
  }

  #accept(jobs: readonly WebhookJob[]): void {
    const { broker, clock } = this.#parts;
    const givenUp: DueWebhook[] = [];
    const orphans: WebhookJob[] = [];
    for (const job of jobs) {
      if (this.#sending.has(job.key)) continue;
      const task = broker.store.task(job.id);
      if (task === undefined) {
        orphans.push(job);
        continue;
      }
      const { tenantId, webhook } = task;
      const endpoint = URL.parse(webhook)?.origin ?? "";
      const due = { ...job, tenantId, endpoint, overMs: job.dueMs + this.#restMs(job.tries) };
      // It waited longer than its tries would have taken, for an endpoint that still is silent.
      if (due.overMs <= clock.nowMs() && this.#sender.isSilent(due)) givenUp.push(due);
      else this.#handOver(due);
    }
    void this.#giveUp(givenUp, silentTooLong);
    void this.#remove(orphans);
  }

  /** Gives the webhook to the sender, unless the sender is full or earlier webhooks are still in the store. */
  #handOver(webhook: DueWebhook): void {
    const isLeft = (full: Full): boolean => this.#unread.has(nameOf(webhook, full));
    const full = (["tenant", "target"] as const).find(isLeft) ?? this.#sender.add(webhook);
    if (full === undefined) this.#sending.add(webhook.key);
    else this.#leave(webhook, full);
  }

  #leave(webhook: DueWebhook, full: Full): void {
    const name = nameOf(webhook, full);
    const { tenantId, endpoint, key: from } = webhook;
    const known = this.#unread.get(name);
    if (known !== undefined && known.from <= from) return;
    this.#unread.set(name, { tenantId, endpoint: full === "target" ? endpoint : undefined, from });
  }

  async #send(webhook: DueWebhook): Promise<Ending> {
    try {
      return await this.#deliver(webhook);
    } catch (error) {
      // The key is still there and is read again later, or after the next start.
      this.#warnings.warn("webhook state could not be written", { error: String(error) });
      this.#sender.hold(webhook, this.#parts.clock.monotonicMs() + this.#backoffMs(1));
      this.#leave(webhook, "target");
      return undefined;
    } finally {
      this.#sending.delete(webhook.key);
    }
  }

  async #deliver(webhook: DueWebhook): Promise<Ending> {
    const { broker, clock } = this.#parts;
    const { store, webhooks } = broker;
    const { id } = webhook;
    // No receiver may learn of a result before it is durable. A wait may also end because it never will be,
    // so the store is asked again.
    for (let done = store.whenDurable(id); done !== undefined; done = store.whenDurable(id)) {
      await done;
    }
    // The key may have been read just before the webhook was delivered.
    if (!store.hasWebhook(webhook)) return undefined;
    const task = store.task(id);
    const result = task === undefined ? undefined : store.result(task);
    if (task === undefined || result === undefined) {
      await store.endWebhooks([webhook]).done;
      return undefined;
    }
    const { tenantId, webhook: url } = task;
    const waitMs = waitForLimit(this.#parts, "task_result", { tenantId, url });
    if (waitMs > 0) {
      await this.#putOff(task, webhook, clock.nowMs() + waitMs);
      return undefined;
    }
    if (webhooks.disabledOf(task) !== undefined) {
      await this.#giveUp([webhook], endpointDisabled);
      return undefined;
    }
    const tries = webhook.tries + 1;
    const atMs = Math.floor(clock.nowMs());
    const startedMs = clock.monotonicMs();
    const answer = await this.#post(task, result, tries);
    const status = typeof answer === "number" ? answer : undefined;
    const to = this.#decide(task, answer, tries);
    const durationMs = Math.round(clock.monotonicMs() - startedMs);
    const why = to.state === "delivered" ? "" : whyOf(answer);
    const dueMs = to.state === "waiting" ? to.nextMs : undefined;
    if (dueMs !== undefined) this.plan(dueMs);
    const next = dueMs === undefined ? undefined : { dueMs, id, tries };
    const writes = webhooks.writesOf(task, to, { atMs, status, durationMs, why });
    await store.endWebhooks([webhook], next, writes).done;
    return status === undefined ? "silent" : "answered";
  }

  async #post(task: Task, result: Result, attempt: number): Promise<Answer> {
    const { post, broker } = this.#parts;
    const secrets = broker.webhooks.signingWith(task.tenantId);
    const answer = await answerTo(() => post(task, result, attempt, secrets));
    if (typeof answer !== "number" && answer.isUnsent === true) {
      this.#warnings.warn("webhook not sent", { taskId: task.id, why: answer.why });
    }
    return answer;
  }

  /** Delivers later, without using up a try. */
  async #putOff(task: Task, webhook: DueWebhook, atMs: number): Promise<void> {
    const { store, webhooks } = this.#parts.broker;
    const dueMs = Math.ceil(atMs);
    const { id, tries } = webhook;
    const writes = webhooks.writesOf(task, { state: "waiting", nextMs: dueMs });
    const { done } = store.endWebhooks([webhook], { dueMs, id, tries }, writes);
    this.plan(dueMs);
    await done;
  }

  /** Whether the webhook was delivered, is retried, or is given up. */
  #decide(task: Task, answer: Answer, tries: number): Delivered {
    const { config, events, clock } = this.#parts;
    const command = queueOf(task.command);
    if (isSuccess(answer)) {
      events.webhookDelivered(command, "success");
      return { state: "delivered" };
    }
    const status = typeof answer === "number" ? answer : undefined;
    const isForbidden = typeof answer !== "number" && answer.isForbidden === true;
    const isWrong = status !== undefined && status >= 400 && status < 500 && !retried.has(status);
    const isFinal = isForbidden || isWrong;
    if (isFinal || tries >= config.resultWebhookMaxAttempts) {
      events.webhookDelivered(command, "failure");
      const why = whyOf(answer);
      this.#warnings.warn("webhook given up", { taskId: task.id, status, tries, why });
      return { state: "failed", why, isGone: status === gone };
    }
    return { state: "waiting", nextMs: Math.floor(clock.nowMs() + this.#backoffMs(tries)) };
  }

  /** Gives up webhooks although they have tries left. */
  async #giveUp(given: readonly DueWebhook[], why: string): Promise<void> {
    const { broker, events } = this.#parts;
    const writes: RecordWrite[] = [];
    for (const { id, tries, endpoint } of given) {
      const task = broker.store.task(id);
      this.#warnings.warn("webhook given up", { taskId: id, tries, endpoint, why });
      if (task === undefined) continue;
      events.webhookDelivered(queueOf(task.command), "failure");
      writes.push(...broker.webhooks.writesOf(task, { state: "failed", why, isGone: false }));
    }
    await this.#remove(given, writes);
  }

  async #remove(jobs: readonly WebhookJob[], writes: readonly RecordWrite[] = []): Promise<void> {
    if (jobs.length === 0) return;
    try {
      await this.#parts.broker.store.endWebhooks(jobs, undefined, writes).done;
    } catch {
      // The keys are there again, and are read again.
      for (const { dueMs } of jobs) this.plan(dueMs);
    }
  }

  /** How long a webhook with so many tries may wait for an endpoint that does not answer. */
  #restMs(tries: number): number {
    let restMs: number = openMsMax;
    for (let each = tries + 1; each < this.#parts.config.resultWebhookMaxAttempts; each += 1) {
      restMs += this.#backoffMs(each);
    }
    return restMs;
  }

  #backoffMs(tries: number): number {
    const { resultWebhookBaseBackoffSeconds: base, resultWebhookMaxBackoffSeconds: max } =
      this.#parts.config;
    return Math.min(base * 2 ** (tries - 1), max) * 1000;
  }
}

const openMsMax = Math.max(...breakerLimits.waitsMs);
const silentTooLong = "the endpoint did not respond for too long";
const endpointDisabled = "the endpoint is disabled; enable it, and send the webhook again";
/** The endpoint says that it will never be there again. */
const gone = 410;
/** Timeouts and throttling say nothing about the request itself. */
const retried = new Set([408, 425, 429]);

function nameOf({ tenantId, endpoint }: DueWebhook, full: Full): string {
  return JSON.stringify(full === "target" ? [tenantId, endpoint] : [tenantId]);
}
