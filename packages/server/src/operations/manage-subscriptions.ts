/** Subscriptions of the whole tenant, for administrators: they may do what a worker on all commands may. */
import { anyEventType } from "../access/identity.ts";
import type { Subscription } from "../store/subscription-record.ts";
import type { SubscriptionPage } from "../subscriptions/subscriptions.ts";
import type { Call, Operation } from "./operation.ts";
import type { PageInput } from "./page-limit.ts";
import {
  getSubscription,
  listSubscriptions,
  type RenewInput,
  renewSubscription,
  type SubscribeInput,
  subscribe,
  unsubscribe,
} from "./subscribe.ts";

const rate = { scope: "admin", operation: "tasks" } as const;

export const listAllSubscriptions: Operation<PageInput, SubscriptionPage> = {
  name: "list_all_subscriptions",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants" },
  run: (server, call, input) => listSubscriptions.run(server, asWorkerOnAll(call), input),
};

export const getAnySubscription: Operation<{ readonly id: string }, Subscription> = {
  name: "get_any_subscription",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants", target: ({ id }) => id },
  run: (server, call, input) => getSubscription.run(server, asWorkerOnAll(call), input),
};

export const subscribeUrl: Operation<SubscribeInput, Subscription> = {
  name: "subscribe_url",
  access: "admin",
  scope: undefined,
  rate,
  audit: { of: "all", target: ({ callbackUrl }) => callbackUrl, detail: ({ id }) => id },
  run: (server, call, input) => subscribe.run(server, asWorkerOnAll(call), input),
};

export const renewAnySubscription: Operation<RenewInput, Subscription> = {
  name: "renew_any_subscription",
  access: "admin",
  scope: undefined,
  rate,
  audit: { of: "all", target: ({ id }) => id },
  run: (server, call, input) => renewSubscription.run(server, asWorkerOnAll(call), input),
};

export const deleteSubscription: Operation<{ readonly id: string }, undefined> = {
  name: "delete_subscription",
  access: "admin",
  scope: undefined,
  rate,
  audit: { of: "all", target: ({ id }) => id },
  run: (server, call, input) => unsubscribe.run(server, asWorkerOnAll(call), input),
};

function asWorkerOnAll(call: Call): Call {
  return { ...call, identity: { ...call.identity, eventTypes: [anyEventType] } };
}
