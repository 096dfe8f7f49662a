/** Subscriptions to availability notifications: those of workers, and all of a tenant for administrators. */

import { endpoints, pageOf, pageQuery } from "../../contract/endpoint.ts";
import { count, instant, list, object, only, text, whole } from "../../contract/shape.ts";
import { limits } from "../../limits.ts";

const deliveryModes = ["fanout", "group", "hash"] as const;

const secondsDefault = limits.subscriptionSecondsDefault;
const ttl = { max: limits.subscriptionSecondsMax, none: 0 } as const;

export const SubscribeBody = object({
  callbackUrl: text("The URL that receives the notifications, with http or https.", {
    isRequired: true,
    min: 1,
    max: limits.webhookCharsMax,
    refusal: "invalid callback url",
  }),
  eventTypes: list(
    text(),
    "The commands to hear of, or `*` alone; empty for every command the token may work on.",
    { max: limits.commandsPerClaimMax, none: [] },
  ),
  ttlSeconds: whole(`Seconds until the subscription ends; 0 or less is ${secondsDefault}.`, ttl),
  deliveryMode: text(
    "`fanout`: this subscriber is notified. `group`: the members of the group take turns. `hash`: one " +
      "of all such subscribers, another one every minute.",
    {
      as: "mode",
      oneOf: deliveryModes,
      none: "fanout",
      refusal: `invalid deliveryMode (one of ${deliveryModes.join(", ")})`,
    },
  ),
  groupId: text("The group, for `group`.", {
    max: limits.subscriptionGroupCharsMax,
    isLine: true,
    none: "",
  }),
  minIntervalSeconds: whole(
    "Seconds between two notifications about the same queue; at least `subscriptionMinIntervalSeconds`.",
    { min: 0, max: limits.subscriptionIntervalSecondsMax, none: 0 },
  ),
});

/** What is posted to a subscriber when a queue has work. */
export const NotificationBody = object({
  eventType: text("The command as the subscriber wrote it."),
  available: only(true),
  queueDepth: count("How many tasks are ready."),
  claimUrl: text("Where the tasks can be claimed."),
  sentAt: instant(),
  notificationId: text("The same with every try."),
  subscriptionId: text(),
});

export const RenewBody = object({
  ttlSeconds: whole(`Seconds from now until it ends; 0 or less is ${secondsDefault}.`, ttl),
});

const id = text("", { format: "uuid", as: "id" });

export const Subscription = object(
  {
    subscriptionId: id,
    callbackUrl: text(),
    eventTypes: list(text(), "", { min: 1 }),
    deliveryMode: text("", { as: "mode", oneOf: deliveryModes }),
    groupId: text("", { none: "" }),
    minIntervalSeconds: count("As asked for; the server may wait longer."),
    createdAt: instant(),
    createdBy: text(),
    expiresAt: instant(),
  },
  { name: "Subscription" },
);

const Subscribed = object({ expiresAt: instant(), subscriptionId: id }, { name: "Subscribed" });

const params = { id: text("The id of the subscription.") };
const query = pageQuery(/^[0-9a-f-]{1,36}$/);
const made = { 200: { about: "Its id, and when it ends.", shape: Subscribed } } as const;
const renewed = { 200: { about: "Its id, and when it ends now.", shape: Subscribed } } as const;
const found = { 200: { about: "The subscription.", shape: Subscription } } as const;
const gone = { 204: { about: "Nothing more is sent." } } as const;
const page = {
  200: {
    about: "In the order of their creation.",
    shape: pageOf("Subscriptions", "subscriptions", Subscription),
  },
} as const;

const worker = { access: "worker", scope: "codeq:subscribe" } as const;
const notAllowed = ["subscription_not_found", "event_type_not_allowed"] as const;
const notFound = ["subscription_not_found"] as const;

export const subscriptions = endpoints({
  subscribe: {
    ...worker,
    key: "POST /workers/subscriptions",
    summary: "Subscribe to queues that have work",
    about:
      "The URL gets a POST when a queue begins to have tasks, and again after the interval while it has " +
      "some. It says nothing of the tasks: the subscriber claims them.",
    body: SubscribeBody,
    refusals: ["invalid_command", "event_type_not_allowed", "too_many_subscriptions"],
    replies: made,
  },
  renewSubscription: {
    ...worker,
    key: "POST /workers/subscriptions/:id/heartbeat",
    summary: "Renew a subscription",
    params,
    body: RenewBody,
    bodyOptional: true,
    refusals: notAllowed,
    replies: renewed,
  },
  listSubscriptions: {
    ...worker,
    key: "GET /workers/subscriptions",
    summary: "List subscriptions",
    about: "Those of the tenant on whose commands the caller may work.",
    query,
    replies: page,
  },
  getSubscription: {
    ...worker,
    key: "GET /workers/subscriptions/:id",
    summary: "Get a subscription",
    params,
    refusals: notAllowed,
    replies: found,
  },
  unsubscribe: {
    ...worker,
    key: "DELETE /workers/subscriptions/:id",
    summary: "Delete a subscription",
    params,
    refusals: notAllowed,
    replies: gone,
  },
  listAllSubscriptions: {
    key: "GET /admin/subscriptions",
    access: "viewer",
    summary: "List all subscriptions of the tenant",
    query,
    replies: page,
  },
  subscribeUrl: {
    key: "POST /admin/subscriptions",
    access: "admin",
    summary: "Subscribe a URL to queues that have work",
    about:
      "As workers do it for themselves. Without `eventTypes`, the URL is notified of every queue.",
    body: SubscribeBody,
    refusals: ["invalid_command", "too_many_subscriptions"],
    replies: made,
  },
  renewAnySubscription: {
    key: "POST /admin/subscriptions/:id/heartbeat",
    access: "admin",
    summary: "Renew a subscription of the tenant",
    params,
    body: RenewBody,
    bodyOptional: true,
    refusals: notFound,
    replies: renewed,
  },
  getAnySubscription: {
    key: "GET /admin/subscriptions/:id",
    access: "viewer",
    summary: "Get a subscription of the tenant",
    params,
    refusals: notFound,
    replies: found,
  },
  deleteSubscription: {
    key: "DELETE /admin/subscriptions/:id",
    access: "admin",
    summary: "Delete a subscription of the tenant",
    params,
    refusals: notFound,
    replies: gone,
  },
});
