/**
 * Subscriptions to availability notifications, for workers that do not wait for tasks. A subscription
 * belongs to one tenant and names only commands that the caller may work on; every caller that may work on
 * all of its commands may read, renew and delete it. Administrators may do what a worker on all commands may.
 */
import { limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import { queueOf } from "@codeq/queue";
import { problemOfUrl } from "../../core/outbound/webhook-url.ts";
import { anyEventType, type Identity } from "../../edge/access/identity.ts";
import { bind } from "../../edge/bind.ts";
import {
  type Answer,
  type Call,
  type Operation,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import type { Subscription } from "./subscription-record.ts";

/** Every operation of workers on subscriptions counts as a claim does. */
const workerRate = { scope: "worker", operation: "subscribe" } as const;

export const subscribe = bind(api.subscriptions.subscribe, {
  rate: workerRate,
  run: async ({ subscriptions, clock, config }, { identity }, { ttlSeconds, ...wanted }) => {
    const problem = problemOfUrl("callback", wanted.callbackUrl, config);
    if (problem !== undefined) return refusal("invalid_argument", problem);
    const eventTypes = readEventTypes(wanted.eventTypes, identity);
    if (!eventTypes.ok) return eventTypes;
    if (wanted.mode === "group" && wanted.groupId.trim() === "") {
      return refusal("invalid_argument", "groupId is required");
    }
    const created = await subscriptions.create({
      ...wanted,
      tenantId: identity.tenantId,
      eventTypes: eventTypes.value,
      createdBy: identity.subject,
      expiresMs: endOf(ttlSeconds, clock),
    });
    return created.ok ? created : refusal(created.code);
  },
});

export const renewSubscription = bind(api.subscriptions.renewSubscription, {
  rate: workerRate,
  run: async (server, call, { id, ttlSeconds }) => {
    const found = find(server, call, id);
    if (!found.ok) return found;
    const { subscriptions, clock } = server;
    const { tenantId } = call.identity;
    const renewed = await subscriptions.renew(tenantId, id, endOf(ttlSeconds, clock));
    return renewed === undefined ? noSuchSubscription : { ok: true, value: renewed };
  },
});

export const getSubscription = bind(api.subscriptions.getSubscription, {
  rate: workerRate,
  run: (server, call, { id }) => find(server, call, id),
});

export const listSubscriptions = bind(api.subscriptions.listSubscriptions, {
  rate: workerRate,
  run: ({ subscriptions }, { identity }, page) => {
    const isSeen = (each: Subscription): boolean => mayWorkOn(identity, each.eventTypes);
    const { tenantId } = identity;
    return { ok: true, value: subscriptions.list({ ...page, tenantId, isSeen }) };
  },
});

export const unsubscribe = bind(api.subscriptions.unsubscribe, {
  rate: workerRate,
  run: async (server, call, { id }) => {
    const found = find(server, call, id);
    if (!found.ok) return found;
    const removed = await server.subscriptions.remove(call.identity.tenantId, id);
    return removed === undefined ? noSuchSubscription : { ok: true, value: undefined };
  },
});

export const listAllSubscriptions = bind(api.subscriptions.listAllSubscriptions, {
  run: onAll(listSubscriptions),
});

export const getAnySubscription = bind(api.subscriptions.getAnySubscription, {
  run: onAll(getSubscription),
});

export const subscribeUrl = bind(api.subscriptions.subscribeUrl, {
  run: onAll(subscribe),
  audit: { target: ({ callbackUrl }) => callbackUrl, detail: ({ id }) => id },
});

export const renewAnySubscription = bind(api.subscriptions.renewAnySubscription, {
  run: onAll(renewSubscription),
});

export const deleteSubscription = bind(api.subscriptions.deleteSubscription, {
  run: onAll(unsubscribe),
});

/** Runs the operation as a caller that may work on all commands. */
function onAll<Input, Output>({ run }: Operation<Input, Output>): typeof run {
  return (server, call, input) =>
    run(server, { ...call, identity: { ...call.identity, eventTypes: [anyEventType] } }, input);
}

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
  const texts = wanted.length === 0 ? identity.eventTypes : wanted.map((each) => each.trim());
  const isBad = texts.some((each) => each !== anyEventType && !limits.commandPattern.test(each));
  if (isBad) return refusal("invalid_command");
  if (!mayWorkOn(identity, texts)) return refusal("event_type_not_allowed");
  if (texts.includes(anyEventType)) return { ok: true, value: [anyEventType] };
  // The first spelling of each queue.
  const byQueue = new Map(texts.toReversed().map((each) => [queueOf(each), each]));
  return { ok: true, value: [...byQueue.values()].reverse() };
}

/** 0 or less for the default. */
function endOf(ttlSeconds: number, clock: Server["clock"]): number {
  const seconds = ttlSeconds <= 0 ? limits.subscriptionSecondsDefault : ttlSeconds;
  return Math.floor(clock.nowMs()) + seconds * 1000;
}
