/**
 * Subscriptions to availability notifications, for workers that do not wait for tasks. A subscription
 * belongs to one tenant and names only commands that the caller may work on; every caller that may work on
 * all of its commands may read, renew and delete it.
 */
import { limits } from "@codeq/protocol";
import { queueOf } from "@codeq/queue";
import { anyEventType, type Identity } from "../access/identity.ts";
import {
  type DeliveryMode,
  deliveryModes,
  type Subscription,
} from "../store/subscription-record.ts";
import type { SubscriptionPage } from "../subscriptions/subscriptions.ts";
import { problemOfCallbackUrl } from "./callback-url.ts";
import { type Answer, type Call, type Operation, refusal, type Server } from "./operation.ts";
import { type PageInput, pageLimitOf } from "./page-limit.ts";

export interface SubscribeInput {
  readonly callbackUrl: string;
  /** Empty for every command the caller may work on. */
  readonly eventTypes: readonly string[];
  /** 0 or less for the default. */
  readonly ttlSeconds: number;
  /** Empty for fanout. */
  readonly deliveryMode: string;
  readonly groupId: string;
  readonly minIntervalSeconds: number;
}

/** Every operation on subscriptions counts as a worker's claim does. */
const common = {
  access: "worker",
  scope: "codeq:subscribe",
  rate: { scope: "worker", operation: "subscribe" },
} as const;

export const subscribe: Operation<SubscribeInput, Subscription> = {
  name: "subscribe",
  ...common,
  run: async ({ subscriptions, clock, config }, { identity }, input) => {
    const problem = problemOfCallbackUrl(input.callbackUrl, config);
    if (problem !== undefined) return problem;
    const eventTypes = readEventTypes(input.eventTypes, identity);
    if (!eventTypes.ok) return eventTypes;
    const mode = readMode(input);
    if (!mode.ok) return mode;
    const ttlMs = readTtlMs(input.ttlSeconds);
    if (!ttlMs.ok) return ttlMs;
    const { groupId, minIntervalSeconds } = input;
    const max = limits.subscriptionIntervalSecondsMax;
    if (minIntervalSeconds < 0 || minIntervalSeconds > max) {
      return refusal("invalid_argument", `invalid 'minIntervalSeconds' (0 to ${max})`);
    }
    const created = await subscriptions.create({
      tenantId: identity.tenantId,
      callbackUrl: input.callbackUrl,
      eventTypes: eventTypes.value,
      mode: mode.value,
      groupId,
      minIntervalSeconds,
      createdBy: identity.subject,
      expiresMs: Math.floor(clock.nowMs()) + ttlMs.value,
    });
    return created.ok ? created : refusal(created.code);
  },
};

export interface RenewInput {
  readonly id: string;
  /** 0 or less for the default. */
  readonly ttlSeconds: number;
}

export const renewSubscription: Operation<RenewInput, Subscription> = {
  name: "renew_subscription",
  ...common,
  run: async (server, call, { id, ttlSeconds }) => {
    const found = find(server, call, id);
    if (!found.ok) return found;
    const ttlMs = readTtlMs(ttlSeconds);
    if (!ttlMs.ok) return ttlMs;
    const { subscriptions, clock } = server;
    const expiresMs = Math.floor(clock.nowMs()) + ttlMs.value;
    const renewed = await subscriptions.renew(call.identity.tenantId, id, expiresMs);
    return renewed === undefined ? noSuchSubscription : { ok: true, value: renewed };
  },
};

export const getSubscription: Operation<{ readonly id: string }, Subscription> = {
  name: "get_subscription",
  ...common,
  run: (server, call, { id }) => find(server, call, id),
};

export const listSubscriptions: Operation<PageInput, SubscriptionPage> = {
  name: "list_subscriptions",
  ...common,
  run: ({ subscriptions }, { identity }, input) => {
    const limit = pageLimitOf(input);
    if (!limit.ok) return limit;
    const { after } = input;
    if (!/^[0-9a-f-]{0,36}$/.test(after)) {
      return refusal("invalid_argument", "invalid 'after' (use 'next' of the previous page)");
    }
    const isSeen = (each: Subscription): boolean => mayWorkOn(identity, each.eventTypes);
    const { tenantId } = identity;
    return {
      ok: true,
      value: subscriptions.list({ tenantId, after, limit: limit.value, isSeen }),
    };
  },
};

export const unsubscribe: Operation<{ readonly id: string }, undefined> = {
  name: "unsubscribe",
  ...common,
  run: async (server, call, { id }) => {
    const found = find(server, call, id);
    if (!found.ok) return found;
    const removed = await server.subscriptions.remove(call.identity.tenantId, id);
    return removed === undefined ? noSuchSubscription : { ok: true, value: undefined };
  },
};

const noSuchSubscription = refusal("subscription_not_found");

function find({ subscriptions }: Server, { identity }: Call, id: string): Answer<Subscription> {
  const found = subscriptions.find(identity.tenantId, id);
  if (found === undefined) return noSuchSubscription;
  if (!mayWorkOn(identity, found.eventTypes)) return refusal("event_type_not_allowed");
  return { ok: true, value: found };
}

function mayWorkOn({ eventTypes: own }: Identity, wanted: readonly string[]): boolean {
  return own.includes(anyEventType) || wanted.every((each) => own.includes(queueOf(each)));
}

function readEventTypes(wanted: readonly string[], identity: Identity): Answer<readonly string[]> {
  const max = limits.commandsPerClaimMax;
  if (wanted.length > max) {
    return refusal("invalid_argument", `invalid 'eventTypes' (at most ${max})`);
  }
  const texts = wanted.length === 0 ? identity.eventTypes : wanted.map((each) => each.trim());
  const isBad = texts.some((each) => each !== anyEventType && !limits.commandPattern.test(each));
  if (isBad) return refusal("invalid_command");
  if (!mayWorkOn(identity, texts)) return refusal("event_type_not_allowed");
  if (texts.includes(anyEventType)) return { ok: true, value: [anyEventType] };
  // The first spelling of each queue.
  const byQueue = new Map(texts.toReversed().map((each) => [queueOf(each), each]));
  return { ok: true, value: [...byQueue.values()].reverse() };
}

function readMode({ deliveryMode, groupId }: SubscribeInput): Answer<DeliveryMode> {
  const mode = deliveryModes.find((each) => each === (deliveryMode || "fanout"));
  if (mode === undefined) {
    const known = deliveryModes.join(", ");
    return refusal("invalid_argument", `invalid deliveryMode (one of ${known})`);
  }
  if (mode === "group" && groupId.trim() === "") {
    return refusal("invalid_argument", "groupId is required");
  }
  const max = limits.subscriptionGroupCharsMax;
  if (groupId.length > max || !groupId.isWellFormed() || /\p{Cc}/u.test(groupId)) {
    return refusal("invalid_argument", `invalid 'groupId' (at most ${max} characters on one line)`);
  }
  return { ok: true, value: mode };
}

function readTtlMs(ttlSeconds: number): Answer<number> {
  const max = limits.subscriptionSecondsMax;
  if (ttlSeconds > max) return refusal("invalid_argument", `invalid 'ttlSeconds' (at most ${max})`);
  const seconds = ttlSeconds <= 0 ? limits.subscriptionSecondsDefault : ttlSeconds;
  return { ok: true, value: seconds * 1000 };
}
