/**
 * Sends results to the URLs that producers gave. A callback is a key that is written with the result and
 * deleted when the callback was delivered or given up, so a restart loses none. Delivery is at least once:
 * receivers recognise repeats by `taskId`.
 *
 * Keys are read in order of their times and handed to the lanes, which schedule them. A callback that cannot
 * be sent yet stays in its lane or in the store, and reading continues behind it. Every try counts, also one
 * that throws.
 */
import { queueOf, type Result, type Task } from "@codeq/queue";
import type { Limiter } from "../access/limiter.ts";
import type { Broker } from "../broker/broker.ts";
import type { Delivered } from "../broker/webhooks.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/settings.ts";
import type { RecordWrite } from "../store/store.ts";
import { firstWebhook, lastWebhook, type WebhookJob, webhooksFrom } from "../store/webhook-job.ts";
import type { Events } from "../telemetry/events.ts";
import type { Logger } from "../telemetry/logger.ts";
import { SpacedWarnings } from "../telemetry/spaced-warnings.ts";
import {
  type Callback,
  CallbackLanes,
  type Ending,
  laneLimitsOfShard,
  type Now,
} from "./callback-lanes.ts";
import { openMsMax } from "./circuit-breaker.ts";
import type { Job } from "./ticker.ts";

/**
 * Posts a callback for the n-th time; the answer's status, or why there is none, if that is known. The
 * tenant's own secrets sign it; an empty one stands for those of the configuration, and so do none.
 */
export type PostCallback = (
  task: Task,
  result: Result,
  attempt: number,
  secrets?: readonly string[],
) => Promise<number | NoAnswer | undefined>;

export interface NoAnswer {
  readonly why: string;
  /** The address is inside the network, which the configuration does not allow. */
  readonly isForbidden?: true;
}

const pageMax = 128;

export class DeliverWebhooks implements Job {
  readonly name = "deliver-webhooks";
  /** Called when a delivery has ended, and with it something may be due. */
  onIdle: () => void = () => {};
  readonly #broker: Broker;
  readonly #clock: Clock;
  readonly #events: Events;
  readonly #logger: Logger;
  readonly #warnings: SpacedWarnings;
  readonly #config: Config;
  readonly #post: PostCallback;
  readonly #limiter: Limiter;
  readonly #lanes: CallbackLanes;
  readonly #inFlight: Set<Promise<void>> = new Set();
  /** Everything up to this key was read. */
  #readTo: string = firstWebhook;
  /** The first that was planned since reading began, and may not be in what is being read. */
  #plannedFrom: string = firstWebhook;
  /** On the wall clock: when there is something behind it. */
  #nextMs = 0;
  /** Reads keys again that lanes had no room for. */
  #again: { cursor: string; readonly isDone: () => boolean } | undefined;

  constructor(parts: {
    broker: Broker;
    clock: Clock;
    events: Events;
    logger: Logger;
    config: Config;
    post: PostCallback;
    limiter: Limiter;
  }) {
    this.#broker = parts.broker;
    this.#clock = parts.clock;
    this.#events = parts.events;
    this.#logger = parts.logger;
    this.#warnings = new SpacedWarnings(parts.logger, parts.clock);
    this.#config = parts.config;
    this.#post = parts.post;
    this.#limiter = parts.limiter;
    this.#lanes = new CallbackLanes(laneLimitsOfShard(parts.config.shards));
  }

  /** A callback is due at this moment. */
  plan(wallMs: number): void {
    this.#nextMs = Math.min(this.#nextMs, wallMs);
    // Behind the key that was read last, unless the clock was set back or both are of the same moment.
    const from = webhooksFrom(Math.floor(wallMs));
    if (from < this.#readTo) this.#readTo = from;
    if (from < this.#plannedFrom) this.#plannedFrom = from;
  }

  nextMs(): number | undefined {
    const nowMs = this.#clock.monotonicMs();
    if (this.#again !== undefined) return nowMs;
    const laneMs = this.#lanes.nextMs(nowMs) ?? Number.POSITIVE_INFINITY;
    const nextMs = Math.min(laneMs, nowMs + this.#nextMs - this.#clock.nowMs());
    return nextMs === Number.POSITIVE_INFINITY ? undefined : nextMs;
  }

  /** Starts what is due and does not wait for it. */
  async runOnce(): Promise<void> {
    if (this.#nextMs <= this.#clock.nowMs()) await this.#readOn();
    await this.#readAgain();
    for (;;) {
      const callback = this.#lanes.take(this.#clock.monotonicMs());
      if (callback === undefined) return;
      this.#start(callback);
    }
  }

  /** Waits for what is under way; nothing new begins. */
  async settle(): Promise<void> {
    await Promise.all(this.#inFlight);
  }

  #now(): Now {
    return { wallMs: this.#clock.nowMs(), monotonicMs: this.#clock.monotonicMs() };
  }

  /** A page of what was never read. */
  async #readOn(): Promise<void> {
    this.#nextMs = Number.POSITIVE_INFINITY;
    this.#plannedFrom = lastWebhook;
    const range = { after: this.#readTo, before: lastWebhook };
    const entries = await this.#broker.store.webhooks(range, pageMax);
    const { wallMs } = this.#now();
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
    if (this.#again === undefined) {
      const again = this.#lanes.readAgain();
      if (again === undefined) return;
      // The key itself is read too.
      this.#again = { cursor: again.from.slice(0, -1), isDone: again.isDone };
    }
    const again = this.#again;
    const range = { after: again.cursor, before: `${this.#readTo}~` };
    const entries = await this.#broker.store.webhooks(range, pageMax);
    this.#accept(entries);
    again.cursor = entries.at(-1)?.key ?? again.cursor;
    if (entries.length < pageMax || again.isDone()) this.#again = undefined;
  }

  #accept(jobs: readonly WebhookJob[]): void {
    const { store } = this.#broker;
    const givenUp: Callback[] = [];
    const orphans: WebhookJob[] = [];
    for (const job of jobs) {
      const { key, dueMs, id, tries } = job;
      if (this.#lanes.has(key)) continue;
      const task = store.task(id);
      if (task === undefined) {
        orphans.push(job);
        continue;
      }
      const endpoint = URL.parse(task.webhook)?.origin ?? "";
      const overMs = dueMs + this.#restMs(tries);
      const callback = { ...job, tenantId: task.tenantId, endpoint, overMs };
      if (this.#lanes.add(callback, this.#now()) === "over") givenUp.push(callback);
    }
    void this.#giveUp(givenUp, silentTooLong);
    void this.#remove(orphans);
  }

  #start(callback: Callback): void {
    const delivery = this.#deliver(callback)
      .then((how) => this.#end(callback, how))
      .catch((error: unknown) => {
        // The key is still there and is read again later, or after the next start.
        this.#warnings.warn("webhook state could not be written", { error: String(error) });
        const now = this.#now();
        this.#lanes.putBack(callback, now, now.monotonicMs + this.#backoffMs(1));
      })
      .finally(() => {
        this.#inFlight.delete(delivery);
        this.onIdle();
      });
    this.#inFlight.add(delivery);
  }

  #end(callback: Callback, how: Ending): void {
    const { over, turned } = this.#lanes.end(callback, how, this.#now());
    // They are read again first, so that it is the ticker that meets storage that refuses writes.
    for (const { dueMs } of over) this.plan(dueMs);
    const { tenantId, endpoint } = callback;
    if (turned === "silent") {
      this.#warnings.warn("webhook endpoint does not respond; sending one callback at a time", {
        tenantId,
        endpoint,
      });
    } else if (turned === "answering") {
      this.#logger.info("webhook endpoint responds again", { tenantId, endpoint });
    }
  }

  async #deliver(callback: Callback): Promise<Ending> {
    const { store, webhooks } = this.#broker;
    const { id } = callback;
    // Nobody outside may hear of a result before it is durable. A wait may also end because it never
    // will be, so it is asked again.
    for (let done = store.whenDurable(id); done !== undefined; done = store.whenDurable(id)) {
      await done;
    }
    // It may have been read just before it was delivered.
    if (!store.hasWebhook(callback)) return "untried";
    const task = store.task(id);
    const result = task === undefined ? undefined : store.result(task);
    if (task === undefined || result === undefined) {
      await store.endWebhooks([callback]).done;
      return "untried";
    }
    const waitMs = this.#limit(task);
    if (waitMs > 0) {
      await this.#putOff(task, callback, this.#clock.nowMs() + waitMs);
      return "untried";
    }
    if (webhooks.disabledOf(task) !== undefined) {
      await this.#giveUp([callback], endpointDisabled);
      return "untried";
    }
    const tries = callback.tries + 1;
    const started = this.#now();
    const answer = await this.#try(task, result, tries);
    const status = typeof answer === "number" ? answer : undefined;
    const to = this.#decide(task, answer, tries);
    const tried = {
      atMs: Math.floor(started.wallMs),
      status,
      durationMs: Math.round(this.#clock.monotonicMs() - started.monotonicMs),
      why: to.state === "delivered" ? "" : whyOf(answer),
    };
    const dueMs = to.state === "waiting" ? to.nextMs : undefined;
    if (dueMs !== undefined) this.plan(dueMs);
    const next = dueMs === undefined ? undefined : { dueMs, id, tries };
    await store.endWebhooks([callback], next, webhooks.writesOf(task, to, tried)).done;
    return status === undefined ? "unanswered" : "answered";
  }

  /** However sending goes wrong, it is a try without an answer. */
  async #try(task: Task, result: Result, attempt: number): Promise<number | NoAnswer> {
    try {
      const secrets = this.#broker.webhooks.signingWith(task.tenantId);
      const answer = (await this.#post(task, result, attempt, secrets)) ?? noAnswer;
      if (typeof answer !== "number" && answer.isForbidden === true) {
        this.#warnings.warn("webhook not sent", { taskId: task.id, why: answer.why });
      }
      return answer;
    } catch (error) {
      this.#warnings.warn("webhook could not be sent", { taskId: task.id, error: String(error) });
      return { why: String(error) };
    }
  }

  /** How long the callback has to wait for its turn; 0 when it may go now. */
  #limit({ tenantId, webhook }: Task): number {
    const allowance = this.#limiter.of("webhook", { tenantId, subject: webhook });
    if (allowance === undefined || allowance.take(1) === 0) return 0;
    this.#events.rateLimited("webhook", "task_result");
    return allowance.waitInLineMs();
  }

  /** Later, without a try being used up. */
  async #putOff(task: Task, callback: Callback, atMs: number): Promise<void> {
    const { store, webhooks } = this.#broker;
    const dueMs = Math.ceil(atMs);
    const { id, tries } = callback;
    const writes = webhooks.writesOf(task, { state: "waiting", nextMs: dueMs });
    const { done } = store.endWebhooks([callback], { dueMs, id, tries }, writes);
    this.plan(dueMs);
    await done;
  }

  /** Whether it was delivered, is to be tried again, or is given up. */
  #decide(task: Task, answer: number | NoAnswer, tries: number): Delivered {
    const command = queueOf(task.command);
    const status = typeof answer === "number" ? answer : undefined;
    if (status !== undefined && status >= 200 && status < 300) {
      this.#events.webhookDelivered(command, "success");
      return { state: "delivered" };
    }
    const isFinal = status !== undefined && status >= 400 && status < 500 && !retried.has(status);
    if (isFinal || tries >= this.#config.resultWebhookMaxAttempts) {
      this.#events.webhookDelivered(command, "failure");
      const why = whyOf(answer);
      this.#warnings.warn("webhook given up", { taskId: task.id, status, tries, why });
      return { state: "failed", why, isGone: status === gone };
    }
    return { state: "waiting", nextMs: Math.floor(this.#clock.nowMs() + this.#backoffMs(tries)) };
  }

  /** Without the tries that were left. */
  async #giveUp(callbacks: readonly Callback[], why: string): Promise<void> {
    const { store, webhooks } = this.#broker;
    const writes: RecordWrite[] = [];
    for (const { id, tries, endpoint } of callbacks) {
      const task = store.task(id);
      this.#warnings.warn("webhook given up", { taskId: id, tries, endpoint, why });
      if (task === undefined) continue;
      this.#events.webhookDelivered(queueOf(task.command), "failure");
      writes.push(...webhooks.writesOf(task, { state: "failed", why, isGone: false }));
    }
    await this.#remove(callbacks, writes);
  }

  async #remove(jobs: readonly WebhookJob[], writes: readonly RecordWrite[] = []): Promise<void> {
    if (jobs.length === 0) return;
    try {
      await this.#broker.store.endWebhooks(jobs, undefined, writes).done;
    } catch {
      // The keys are there again, and are read again.
      for (const { dueMs } of jobs) this.plan(dueMs);
    }
  }

  /** How long a callback with so many tries may wait for an endpoint that does not answer. */
  #restMs(tries: number): number {
    let restMs = openMsMax;
    for (let each = tries + 1; each < this.#config.resultWebhookMaxAttempts; each += 1) {
      restMs += this.#backoffMs(each);
    }
    return restMs;
  }

  #backoffMs(tries: number): number {
    const { resultWebhookBaseBackoffSeconds: base, resultWebhookMaxBackoffSeconds: max } =
      this.#config;
    return Math.min(base * 2 ** (tries - 1), max) * 1000;
  }
}

const noAnswer: NoAnswer = { why: "there was no answer" };
const silentTooLong = "the endpoint did not respond for too long";
const endpointDisabled = "the endpoint is disabled; enable it, and send the callback again";
/** The endpoint says that it will never be there again. */
const gone = 410;

function whyOf(answer: number | NoAnswer): string {
  return typeof answer === "number" ? `the answer was ${answer}` : answer.why;
}

/** Timeouts and throttling say nothing about the request itself. */
const retried = new Set([408, 425, 429]);
