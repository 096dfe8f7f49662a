/**
 * Sends results to the URLs that producers gave. A callback is a key that was written with the result
 * itself and goes away when it was delivered or given up, so a restart loses none. Delivery is
 * at least once: receivers tell repeats by `taskId`.
 */
import { create, type Op, remove } from "@codeq/engine";
import { queueOf, type Result, type Task } from "@codeq/queue";
import type { Limiter } from "../access/limiter.ts";
import type { Broker } from "../broker/broker.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config/settings.ts";
import { endOf, idOf, numberOf, webhookKey, webhookPrefix } from "../store/keys.ts";
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
    const range = { after: webhookPrefix, before: endOf(webhookPrefix) };
    const entries = await this.#broker.store.engine.scan(range, inFlightMax * 2);
    for (const [key, value] of entries) {
      if (this.#inFlight.has(key)) continue;
      const dueMs = numberOf(key);
      if (dueMs > this.#clock.nowMs() || this.#inFlight.size >= inFlightMax) {
        this.plan(dueMs);
        break;
      }
      this.#start(key, Number(value.toString("latin1")));
    }
    if (entries.length === inFlightMax * 2) this.plan(0);
  }

  /** Waits for what is under way; nothing new begins. */
  async settle(): Promise<void> {
    await Promise.all(this.#inFlight.values());
  }

  #start(key: string, tries: number): void {
    const delivery = this.#deliver(key, tries)
      .catch((error: unknown) => {
        // The key is still there: a later run or the next start tries again.
        this.#logger.warn("webhook state could not be written", { error: String(error) });
        this.plan(this.#clock.nowMs() + this.#backoffMs(1));
      })
      .finally(() => {
        this.#inFlight.delete(key);
        this.onIdle();
      });
    this.#inFlight.set(key, delivery);
  }

  async #deliver(key: string, tries: number): Promise<void> {
    const { store } = this.#broker;
    const id = idOf(key);
    // Nobody outside may hear of a result before it is durable. A wait may also end because it never
    // will be, so it is asked again.
    for (let done = store.whenDurable(id); done !== undefined; done = store.whenDurable(id)) {
      await done;
    }
    const task = store.task(id);
    const result = store.result(id);
    const ops: Op[] = [remove(key)];
    if (task !== undefined && result !== undefined) {
      const waitMs = this.#limit(task);
      if (waitMs > 0) {
        await this.#putOff(key, { tries, dueMs: this.#clock.nowMs() + waitMs });
        return;
      }
      const status = await this.#post(task, result);
      const next = this.#decide(task, status, tries + 1);
      if (next !== undefined) ops.push(create(webhookKey(next, id), String(tries + 1)));
    }
    await store.engine.commit(ops).done;
  }

  /** How long the callback has to wait for its turn; 0 when it may go now. */
  #limit({ tenantId, webhook }: Task): number {
    const allowance = this.#limiter.of("webhook", { tenantId, subject: webhook });
    if (allowance === undefined || allowance.take(1) === 0) return 0;
    this.#events.rateLimited("webhook", "task_result");
    return allowance.waitInLineMs();
  }

  /** Later, without a try being used up. */
  async #putOff(
    key: string,
    to: { readonly tries: number; readonly dueMs: number },
  ): Promise<void> {
    const dueMs = Math.ceil(to.dueMs);
    this.plan(dueMs);
    const later = create(webhookKey(dueMs, idOf(key)), String(to.tries));
    await this.#broker.store.engine.commit([remove(key), later]).done;
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
