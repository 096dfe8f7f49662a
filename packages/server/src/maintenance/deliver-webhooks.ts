/**
 * Sends results to the URLs that producers gave. A callback is a key that was written with the result
 * itself and goes away when it was delivered or given up, so a restart loses none. Delivery is
 * at least once: receivers tell repeats by `taskId`.
 */
import { queueOf, type Result, type Task } from "@codeq/queue";
import type { Limiter } from "../access/limiter.ts";
import type { Broker } from "../broker/broker.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/settings.ts";
import type { WebhookJob } from "../store/store.ts";
import type { Events } from "../telemetry/events.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Job } from "./ticker.ts";

/** Posts a callback; the answer's status, or undefined when none came. */
export type PostCallback = (task: Task, result: Result) => Promise<number | undefined>;

const inFlightMax = 64;

export class DeliverWebhooks implements Job {
  readonly name = "deliver-webhooks";
  /** Called when a delivery has ended, and with it something may be due. */
  onIdle: () => void = () => {};
  readonly #broker: Broker;
  readonly #clock: Clock;
  readonly #events: Events;
  readonly #logger: Logger;
  readonly #config: Config;
  readonly #post: PostCallback;
  readonly #limiter: Limiter;
  readonly #inFlight: Map<string, Promise<void>> = new Map();
  /** Deliveries that ended since jobs were last read: what was read may still have them. */
  #ended: Set<string> = new Set();
  #nextMs = 0;

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
    this.#config = parts.config;
    this.#post = parts.post;
    this.#limiter = parts.limiter;
  }

  plan(wallMs: number): void {
    this.#nextMs = Math.min(this.#nextMs, wallMs);
  }

  nextMs(): number | undefined {
    const isBusy = this.#inFlight.size >= inFlightMax;
    if (isBusy || this.#nextMs === Number.POSITIVE_INFINITY) return undefined;
    return this.#clock.monotonicMs() + this.#nextMs - this.#clock.nowMs();
  }

  /** Starts what is due and does not wait for it. */
  async runOnce(): Promise<void> {
    this.#nextMs = Number.POSITIVE_INFINITY;
    this.#ended = new Set();
    const jobs = await this.#broker.store.webhooks(undefined, inFlightMax * 2);
    for (const job of jobs) {
      const name = nameOf(job);
      if (this.#inFlight.has(name) || this.#ended.has(name)) continue;
      if (job.dueMs > this.#clock.nowMs() || this.#inFlight.size >= inFlightMax) {
        this.plan(job.dueMs);
        break;
      }
      this.#start(job);
    }
    if (jobs.length === inFlightMax * 2) this.plan(0);
  }

  /** Waits for what is under way; nothing new begins. */
  async settle(): Promise<void> {
    await Promise.all(this.#inFlight.values());
  }

  #start(job: WebhookJob): void {
    const delivery = this.#deliver(job)
      .catch((error: unknown) => {
        // The key is still there: a later run or the next start tries again.
        this.#logger.warn("webhook state could not be written", { error: String(error) });
        this.plan(this.#clock.nowMs() + this.#backoffMs(1));
      })
      .finally(() => {
        this.#inFlight.delete(nameOf(job));
        this.#ended.add(nameOf(job));
        this.onIdle();
      });
    this.#inFlight.set(nameOf(job), delivery);
  }

  async #deliver(job: WebhookJob): Promise<void> {
    const { store } = this.#broker;
    const { id, tries } = job;
    // Nobody outside may hear of a result before it is durable. A wait may also end because it never
    // will be, so it is asked again.
    for (let done = store.whenDurable(id); done !== undefined; done = store.whenDurable(id)) {
      await done;
    }
    const task = store.task(id);
    const result = task === undefined ? undefined : store.result(task);
    let next: WebhookJob | undefined;
    if (task !== undefined && result !== undefined) {
      const waitMs = this.#limit(task);
      if (waitMs > 0) {
        await this.#putOff(job, Math.ceil(this.#clock.nowMs() + waitMs));
        return;
      }
      const status = await this.#post(task, result);
      const dueMs = this.#decide(task, status, tries + 1);
      if (dueMs !== undefined) next = { dueMs, id, tries: tries + 1 };
    }
    await store.endWebhook(job, next).done;
  }

  /** How long the callback has to wait for its turn; 0 when it may go now. */
  #limit({ tenantId, webhook }: Task): number {
    const allowance = this.#limiter.of("webhook", { tenantId, subject: webhook });
    if (allowance === undefined || allowance.take(1) === 0) return 0;
    this.#events.rateLimited("webhook", "task_result");
    return allowance.waitInLineMs();
  }

  /** Later, without a try being used up. */
  async #putOff(job: WebhookJob, dueMs: number): Promise<void> {
    this.plan(dueMs);
    await this.#broker.store.endWebhook(job, { ...job, dueMs }).done;
  }

  /** When to try again; undefined when it is over. */
  #decide(task: Task, status: number | undefined, tries: number): number | undefined {
    const command = queueOf(task.command);
    if (status !== undefined && status >= 200 && status < 300) {
      this.#events.webhookDelivered(command, "success");
      return undefined;
    }
    const isFinal = status !== undefined && status >= 400 && status < 500 && !retried.has(status);
    if (isFinal || tries >= this.#config.resultWebhookMaxAttempts) {
      this.#events.webhookDelivered(command, "failure");
      this.#logger.warn("webhook given up", { taskId: task.id, status, tries });
      return undefined;
    }
    const dueMs = this.#clock.nowMs() + this.#backoffMs(tries);
    this.plan(dueMs);
    return dueMs;
  }

  #backoffMs(tries: number): number {
    const { resultWebhookBaseBackoffSeconds: base, resultWebhookMaxBackoffSeconds: max } =
      this.#config;
    return Math.min(base * 2 ** (tries - 1), max) * 1000;
  }
}

/** Timeouts and throttling say nothing about the request itself. */
const retried = new Set([408, 425, 429]);

function nameOf({ dueMs, id }: WebhookJob): string {
  return `${dueMs}/${id}`;
}
