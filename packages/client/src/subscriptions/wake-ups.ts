/**
 * Notifications inside this process: a port that receives them, a subscription that is kept alive for as long
 * as the port is open, and a promise for callers that wait. A notification without a waiting caller is kept, once.
 */
import type { WireOf } from "@codeq/protocol";
import type { NotificationBody } from "@codeq/protocol/api";
import { CodeqError } from "../codeq-error.ts";
import { type Duration, toMs } from "../duration.ts";
import type { Receiver, Runtime } from "../runtime.ts";
import { type VerifyOptions, verifySignature, type WebhookRequest } from "../verify-webhook.ts";
import type { SubscribeOptions, Subscriptions } from "./subscriptions.ts";

/** Where this process listens, and for what. */
export interface ListenOptions extends SubscribeOptions {
  /** The port to listen on. */
  readonly port: number;
  /** The address to listen on. Default: all addresses of this machine. */
  readonly host?: string | undefined;
  /** The secret that the server signs with, or all that may be valid; without it, anyone may wake the process. */
  readonly secret?: string | readonly string[] | undefined;
}

/** Made by `client.subscriptions.listen`. */
export interface WakeUp extends AsyncDisposable {
  /** The id of the subscription. */
  readonly id: string;
  /**
   * The next notification, or undefined when the time is over. One that came since the last call is given
   * at once.
   */
  next(options?: {
    readonly timeout?: Duration | undefined;
    readonly signal?: AbortSignal | undefined;
  }): Promise<Notification | undefined>;
  /** Deletes the subscription and closes the port. */
  close(): Promise<void>;
}

const ttlDefault: Duration = "5m";
/** How often a subscription is renewed within its lifetime. */
const renewals = 3;

export class WakeUps implements WakeUp {
  readonly #subscriptions: Subscriptions;
  readonly #runtime: Runtime;
  readonly #options: ListenOptions;
  readonly #ttlMs: number;
  #receiver: Receiver | undefined;
  #id = "";
  #latest: Notification | undefined;
  #waiting: ((notification: Notification | undefined) => void) | undefined;
  #cancelRenewal: () => void = () => {};
  #isClosed = false;

  private constructor(subscriptions: Subscriptions, runtime: Runtime, options: ListenOptions) {
    this.#subscriptions = subscriptions;
    this.#runtime = runtime;
    this.#options = options;
    this.#ttlMs = toMs(options.ttl ?? ttlDefault, "ttl");
  }

  static async open(
    subscriptions: Subscriptions,
    runtime: Runtime,
    options: ListenOptions,
  ): Promise<WakeUps> {
    const wakeUps = new WakeUps(subscriptions, runtime, options);
    const { port, host } = options;
    wakeUps.#receiver = await runtime.listen({ port, host }, (request) => {
      return wakeUps.#receive(request);
    });
    try {
      await wakeUps.#subscribe();
    } catch (error) {
      await wakeUps.#receiver.close();
      throw error;
    }
    return wakeUps;
  }

  get id(): string {
    return this.#id;
  }

  next({
    timeout,
    signal,
  }: {
    readonly timeout?: Duration | undefined;
    readonly signal?: AbortSignal | undefined;
  } = {}): Promise<Notification | undefined> {
    if (this.#waiting !== undefined) {
      const text = "next is waited for already; wait for one at a time";
      return Promise.reject(new CodeqError("invalid_option", text));
    }
    const latest = this.#latest;
    this.#latest = undefined;
    if (latest !== undefined || this.#isClosed || signal?.aborted) return Promise.resolve(latest);
    return new Promise((resolve) => {
      const give = (notification: Notification | undefined): void => {
        this.#waiting = undefined;
        cancel();
        signal?.removeEventListener("abort", stop);
        resolve(notification);
      };
      const stop = (): void => give(undefined);
      const cancel =
        timeout === undefined
          ? () => {}
          : this.#runtime.clock.after(toMs(timeout, "timeout"), stop);
      signal?.addEventListener("abort", stop, { once: true });
      this.#waiting = give;
    });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelRenewal();
    this.#waiting?.(undefined);
    try {
      await this.#subscriptions.delete(this.#id);
    } catch (error) {
      // It has run out, or will.
      if (!(error instanceof CodeqError)) throw error;
    } finally {
      await this.#receiver?.close();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #receive(request: WebhookRequest): number {
    const { secret } = this.#options;
    let notification: Notification;
    try {
      const nowMs = this.#runtime.clock.nowMs();
      notification =
        secret === undefined
          ? notificationOf(request)
          : verifyNotification(request, { secret, nowMs });
    } catch {
      // The sender hears that it was not taken.
      return 400;
    }
    if (this.#waiting !== undefined) this.#waiting(notification);
    else this.#latest = notification;
    return 204;
  }

  async #subscribe(): Promise<void> {
    this.#id = (await this.#subscriptions.create({ ...this.#options, ttl: this.#ttlMs })).id;
    this.#planRenewal(this.#ttlMs / renewals);
  }

  #planRenewal(afterMs: number): void {
    if (this.#isClosed) return;
    this.#cancelRenewal = this.#runtime.clock.after(afterMs, () => void this.#renew(), {
      background: true,
    });
  }

  /** After a failure it tries again before the subscription expires, and creates a new one after that. */
  async #renew(tries = 1): Promise<void> {
    try {
      await this.#subscriptions.renew(this.#id, { ttl: this.#ttlMs });
      this.#planRenewal(this.#ttlMs / renewals);
    } catch (error) {
      const isGone = error instanceof CodeqError && error.code === "subscription_not_found";
      try {
        if (isGone && !this.#isClosed) return await this.#subscribe();
      } catch {
        // The renewal below tries again: the server may be there later.
      }
      if (this.#isClosed) return;
      const pauseMs = Math.max(this.#runtime.pauseMs(tries), 1000);
      const again = (): void => void this.#renew(tries + 1);
      this.#cancelRenewal = this.#runtime.clock.after(pauseMs, again, { background: true });
    }
  }
}

/** A queue has work. */
export interface Notification {
  /** The same when the notification is sent again. */
  readonly id: string;
  /** The name of the task. */
  readonly task: string;
  /** How many tasks were ready when it was sent. */
  readonly queueDepth: number;
  readonly subscriptionId: string;
  readonly sentAt: Date;
}

/**
 * Checks the signature of an availability notification and returns what it says, for receivers of their own;
 * `client.subscriptions.listen` does this by itself. Throws a `CodeqError` with the code `webhook_refused`.
 *
 * ```ts
 * const { task, queueDepth } = verifyNotification({ body, headers }, { secret: "whsec_..." });
 * ```
 */
export function verifyNotification(request: WebhookRequest, options: VerifyOptions): Notification {
  verifySignature(request, options);
  return notificationOf(request);
}

/** Without looking at the signature. */
function notificationOf({ body }: Pick<WebhookRequest, "body">): Notification {
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  const fields: Partial<WireOf<typeof NotificationBody>> = JSON.parse(text);
  const { notificationId, eventType, queueDepth, subscriptionId, sentAt } = fields;
  if (typeof notificationId !== "string" || typeof eventType !== "string") {
    throw new CodeqError("webhook_refused", "the webhook is refused: it is no notification");
  }
  return {
    id: notificationId,
    task: eventType,
    queueDepth: Number(queueDepth),
    subscriptionId: String(subscriptionId),
    sentAt: new Date(String(sentAt)),
  };
}
