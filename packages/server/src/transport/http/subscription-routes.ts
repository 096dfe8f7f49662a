/** Routes for subscriptions to availability notifications. */
import { operations } from "../../operations/index.ts";
import type { RenewInput, SubscribeInput } from "../../operations/subscribe.ts";
import type { Subscription } from "../../store/subscription-record.ts";
import type { SubscriptionPage } from "../../subscriptions/subscriptions.ts";
import { RenewSubscriptionBody, SubscribeBody } from "./bodies.ts";
import type { BodyOf } from "./json-body.ts";
import type { JsonCodec } from "./json-codec.ts";
import { pageIn } from "./page-query.ts";
import { pageFields } from "./query.ts";
import { type HttpRequest, json, route } from "./route.ts";

const base = "/v1/codeq/workers/subscriptions";
const adminBase = "/v1/codeq/admin/subscriptions";
const params = { id: "The id of the subscription." };

function subscribeIn({ body }: HttpRequest): { ok: true; value: SubscribeInput } {
  const fields = body as BodyOf<typeof SubscribeBody>;
  return {
    ok: true,
    value: {
      callbackUrl: fields.callbackUrl,
      eventTypes: fields.eventTypes ?? [],
      ttlSeconds: fields.ttlSeconds ?? 0,
      deliveryMode: fields.deliveryMode ?? "",
      groupId: fields.groupId ?? "",
      minIntervalSeconds: fields.minIntervalSeconds ?? 0,
    },
  };
}

function renewIn({ params, body }: HttpRequest): { ok: true; value: RenewInput } {
  const { ttlSeconds } = (body ?? {}) as BodyOf<typeof RenewSubscriptionBody>;
  return { ok: true, value: { id: params["id"] ?? "", ttlSeconds: ttlSeconds ?? 0 } };
}

function idIn({ params }: HttpRequest): { ok: true; value: { id: string } } {
  return { ok: true, value: { id: params["id"] ?? "" } };
}

export const subscriptionRoutes = [
  route({
    method: "POST",
    path: base,
    operation: operations.subscribe,
    name: "subscribe",
    summary: "Subscribe to queues that have work",
    about:
      "The URL gets a POST when a queue begins to have tasks, and again after the interval while it has " +
      "some. It says nothing of the tasks: the subscriber claims them.",
    body: SubscribeBody,
    refusals: ["invalid_command", "event_type_not_allowed", "too_many_subscriptions"],
    replies: { 200: { about: "Its id, and when it ends.", schema: "Subscribed" } },
    input: subscribeIn,
    reply: subscribed,
  }),
  route({
    method: "POST",
    path: `${base}/:id/heartbeat`,
    operation: operations.renewSubscription,
    name: "renewSubscription",
    summary: "Renew a subscription",
    params,
    body: RenewSubscriptionBody,
    bodyOptional: true,
    refusals: ["subscription_not_found", "event_type_not_allowed"],
    replies: { 200: { about: "Its id, and when it ends now.", schema: "Subscribed" } },
    input: renewIn,
    reply: subscribed,
  }),
  route({
    method: "GET",
    path: base,
    operation: operations.listSubscriptions,
    name: "listSubscriptions",
    summary: "List subscriptions",
    about: "Those of the tenant on whose commands the caller may work.",
    query: pageFields,
    replies: { 200: { about: "In the order of their creation.", schema: "Subscriptions" } },
    input: (request) => ({ ok: true, value: pageIn(request) }),
    reply: listed,
  }),
  route({
    method: "GET",
    path: `${base}/:id`,
    operation: operations.getSubscription,
    name: "getSubscription",
    summary: "Get a subscription",
    params,
    refusals: ["subscription_not_found", "event_type_not_allowed"],
    replies: { 200: { about: "The subscription.", schema: "Subscription" } },
    input: idIn,
    reply: (subscription, codec) => json(JSON.stringify(subscriptionFields(subscription, codec))),
  }),
  route({
    method: "DELETE",
    path: `${base}/:id`,
    operation: operations.unsubscribe,
    name: "unsubscribe",
    summary: "Delete a subscription",
    params,
    refusals: ["subscription_not_found", "event_type_not_allowed"],
    replies: { 204: { about: "Nothing more is sent." } },
    input: idIn,
    reply: () => ({ status: 204, body: undefined }),
  }),
  route({
    method: "GET",
    path: adminBase,
    operation: operations.listAllSubscriptions,
    name: "listAllSubscriptions",
    summary: "List all subscriptions of the tenant",
    query: pageFields,
    replies: { 200: { about: "In the order of their creation.", schema: "Subscriptions" } },
    input: (request) => ({ ok: true, value: pageIn(request) }),
    reply: listed,
  }),
  route({
    method: "POST",
    path: adminBase,
    operation: operations.subscribeUrl,
    name: "subscribeUrl",
    summary: "Subscribe a URL to queues that have work",
    about: "As workers do it for themselves. Without `eventTypes`, the URL is told of every queue.",
    body: SubscribeBody,
    refusals: ["invalid_command", "too_many_subscriptions"],
    replies: { 200: { about: "Its id, and when it ends.", schema: "Subscribed" } },
    input: subscribeIn,
    reply: subscribed,
  }),
  route({
    method: "POST",
    path: `${adminBase}/:id/heartbeat`,
    operation: operations.renewAnySubscription,
    name: "renewAnySubscription",
    summary: "Renew a subscription of the tenant",
    params,
    body: RenewSubscriptionBody,
    bodyOptional: true,
    refusals: ["subscription_not_found"],
    replies: { 200: { about: "Its id, and when it ends now.", schema: "Subscribed" } },
    input: renewIn,
    reply: subscribed,
  }),
  route({
    method: "GET",
    path: `${adminBase}/:id`,
    operation: operations.getAnySubscription,
    name: "getAnySubscription",
    summary: "Get a subscription of the tenant",
    params,
    refusals: ["subscription_not_found"],
    replies: { 200: { about: "The subscription.", schema: "Subscription" } },
    input: idIn,
    reply: (subscription, codec) => json(JSON.stringify(subscriptionFields(subscription, codec))),
  }),
  route({
    method: "DELETE",
    path: `${adminBase}/:id`,
    operation: operations.deleteSubscription,
    name: "deleteSubscription",
    summary: "Delete a subscription of the tenant",
    params,
    refusals: ["subscription_not_found"],
    replies: { 204: { about: "Nothing more is sent." } },
    input: idIn,
    reply: () => ({ status: 204, body: undefined }),
  }),
] as const;

function listed({ subscriptions, next }: SubscriptionPage, codec: JsonCodec) {
  const shown = subscriptions.map((each) => subscriptionFields(each, codec));
  return json(JSON.stringify({ subscriptions: shown, next }));
}

function subscribed({ id, expiresMs }: Subscription, codec: JsonCodec) {
  return json(JSON.stringify({ expiresAt: codec.instant(expiresMs), subscriptionId: id }));
}

function subscriptionFields(subscription: Subscription, codec: JsonCodec): object {
  const { id, callbackUrl, eventTypes, mode, groupId, minIntervalSeconds } = subscription;
  return {
    subscriptionId: id,
    callbackUrl,
    eventTypes,
    deliveryMode: mode,
    ...(groupId === "" ? {} : { groupId }),
    minIntervalSeconds,
    createdAt: codec.instant(subscription.createdMs),
    createdBy: subscription.createdBy,
    expiresAt: codec.instant(subscription.expiresMs),
  };
}
