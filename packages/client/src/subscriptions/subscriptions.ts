/** Subscriptions to queues that have work: made, renewed, listed, deleted, and listened to. */
import type { ItemOf } from "@codeq/protocol";
import { type AskApi, call, pages } from "../api-calls.ts";
import { type Duration, toMs, toSeconds } from "../duration.ts";
import type { Runtime } from "../runtime.ts";
import { type ListenOptions, type WakeUp, WakeUps } from "./wake-ups.ts";

/** Which subscribers are notified when a queue has work: all, one of a group by turns, or one by the minute. */
export type DeliveryMode = "fanout" | "group" | "hash";

/** The queues to be notified of, and the URL. */
export interface SubscribeOptions {
  /** The URL that gets a POST when a queue has work. */
  readonly url: string;
  /** Names of tasks. Default: all tasks that the token allows. */
  readonly tasks?: readonly string[] | undefined;
  /** How long the subscription lasts without a renewal. Default: 5 minutes. */
  readonly ttl?: Duration | undefined;
  /** Default: `"fanout"`, or `"group"` if there is a group. */
  readonly mode?: DeliveryMode | undefined;
  /** Subscribers with the same group take turns. */
  readonly group?: string | undefined;
  /** The shortest time between two notifications about the same queue; the server has one of its own. */
  readonly minInterval?: Duration | undefined;
}

/** A subscription as the server has it. */
export interface Subscription {
  readonly id: string;
  readonly url: string;
  /** Names of tasks; `*` stands for all of the tenant. */
  readonly tasks: readonly string[];
  readonly mode: DeliveryMode;
  readonly group: string | undefined;
  readonly minIntervalSeconds: number;
  readonly createdAt: Date;
  readonly createdBy: string;
  readonly expiresAt: Date;
}

type Fields = ItemOf<"GET /admin/subscriptions">;

/**
 * Subscriptions of a tenant: made, renewed, listed and deleted.
 *
 * ```ts
 * for await (const { id, url } of client.admin.subscriptions.list()) console.log(id, url);
 * ```
 */
export class TenantSubscriptions {
  readonly #ask: AskApi;
  readonly #side: "admin" | "workers";

  /** @internal Use `client.admin.subscriptions`. */
  constructor(ask: AskApi, side: "admin" | "workers") {
    this.#ask = ask;
    this.#side = side;
  }

  /** Subscribes a URL; gives the id, and when it ends. */
  async create(
    options: SubscribeOptions,
  ): Promise<{ readonly id: string; readonly expiresAt: Date }> {
    const { url, tasks, ttl, group, minInterval } = options;
    const body = {
      callbackUrl: url,
      eventTypes: tasks,
      ttlSeconds: secondsOf(ttl, "ttl"),
      deliveryMode: options.mode ?? (group === undefined ? undefined : "group"),
      groupId: group,
      minIntervalSeconds: secondsOf(minInterval, "minInterval"),
    };
    return subscribed(await call(this.#ask, `POST /${this.#side}/subscriptions`, { body }));
  }

  /** Lets a subscription last from now on for so long; gives when it ends. */
  async renew(
    id: string,
    { ttl }: { readonly ttl?: Duration | undefined } = {},
  ): Promise<{ readonly id: string; readonly expiresAt: Date }> {
    const given = { params: { id }, body: { ttlSeconds: secondsOf(ttl, "ttl") } };
    return subscribed(
      await call(this.#ask, `POST /${this.#side}/subscriptions/:id/heartbeat`, given),
    );
  }

  /** All of the tenant on whose tasks the token may work, page after page. */
  async *list(): AsyncGenerator<Subscription, void, undefined> {
    for await (const each of pages(this.#ask, `GET /${this.#side}/subscriptions`)) {
      yield subscriptionOf(each);
    }
  }

  async delete(id: string): Promise<void> {
    await call(this.#ask, `DELETE /${this.#side}/subscriptions/:id`, { params: { id } });
  }

  async get(id: string): Promise<Subscription> {
    const given = { params: { id } };
    return subscriptionOf(await call(this.#ask, `GET /${this.#side}/subscriptions/:id`, given));
  }
}

/**
 * Subscriptions to queues that have work, for workers that do not wait for tasks all the time. The token
 * needs the scope `codeq:subscribe`.
 *
 * ```ts
 * const { id } = await client.subscriptions.create({ url: "https://worker.example.com/wake" });
 * await client.subscriptions.renew(id, { ttl: "10m" });
 * ```
 */
export class Subscriptions extends TenantSubscriptions {
  readonly #runtime: Runtime;

  /** @internal Use `client.subscriptions`. */
  constructor(ask: AskApi, runtime: Runtime) {
    super(ask, "workers");
    this.#runtime = runtime;
  }

  /**
   * Wakes this process when there is work: opens a port, subscribes the URL that leads to it, renews the
   * subscription, and deletes it at the end. A worker that polls waits for `next` between two polls.
   *
   * ```ts
   * await using wakeUp = await client.subscriptions.listen({
   *   url: "http://worker-1.internal:9100/wake",
   *   port: 9100,
   *   tasks: ["resize"],
   * });
   * const notification = await wakeUp.next({ timeout: "5m" });
   * ```
   */
  listen(options: ListenOptions): Promise<WakeUp> {
    return WakeUps.open(this, this.#runtime, options);
  }
}

function secondsOf(duration: Duration | undefined, what: string): number | undefined {
  return duration === undefined ? undefined : toSeconds(toMs(duration, what));
}

function subscribed({ subscriptionId, expiresAt }: Pick<Fields, "subscriptionId" | "expiresAt">): {
  readonly id: string;
  readonly expiresAt: Date;
} {
  return { id: subscriptionId, expiresAt: new Date(expiresAt) };
}

function subscriptionOf(fields: Fields): Subscription {
  return {
    ...subscribed(fields),
    url: fields.callbackUrl,
    tasks: fields.eventTypes,
    mode: fields.deliveryMode,
    group: fields.groupId,
    minIntervalSeconds: fields.minIntervalSeconds,
    createdAt: new Date(fields.createdAt),
    createdBy: fields.createdBy,
  };
}
