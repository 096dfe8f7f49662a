/** A subscription to availability notifications as text, and the time of its last notification. */
import { create, put, remove } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import type { RecordKind } from "./control-records.ts";
import {
  subscriptionKey,
  subscriptionsPrefix,
  subscriptionTurnKey,
  subscriptionTurnsPrefix,
} from "./keys.ts";
import { parseRecord } from "./parse-record.ts";
import type { RecordWrite } from "./store.ts";

declare const brand: unique symbol;

export type SubscriptionId = string & { readonly [brand]: "SubscriptionId" };

export const deliveryModes = ["fanout", "group", "hash"] as const;
export type DeliveryMode = (typeof deliveryModes)[number];

export interface Subscription {
  readonly id: SubscriptionId;
  readonly tenantId: TenantId;
  readonly callbackUrl: string;
  /** Commands as the subscriber wrote them; `*` alone for every queue of the tenant. */
  readonly eventTypes: readonly string[];
  readonly mode: DeliveryMode;
  /** Empty when none was given. */
  readonly groupId: string;
  readonly minIntervalSeconds: number;
  readonly createdMs: number;
  /** The subject that asked for it. */
  readonly createdBy: string;
  readonly expiresMs: number;
}

export function writeOfNewSubscription(subscription: Subscription): RecordWrite {
  return create(keyOf(subscription), encodeSubscription(subscription));
}

export function writeOfSubscription(subscription: Subscription): RecordWrite {
  return put(keyOf(subscription), encodeSubscription(subscription));
}

export function removalsOfSubscription(subscription: Subscription): RecordWrite[] {
  return [remove(keyOf(subscription)), remove(subscriptionTurnKey(subscription.id))];
}

/** Notes when a subscriber was last told, which is also whose turn it is in its group. */
export function writeOfTurn(id: SubscriptionId, toldMs: number): RecordWrite {
  return put(subscriptionTurnKey(id), String(toldMs));
}

function keyOf({ tenantId, id }: Subscription): string {
  return subscriptionKey(tenantId, id);
}

function encodeSubscription(subscription: Subscription): string {
  return JSON.stringify([
    subscription.id,
    subscription.tenantId,
    subscription.callbackUrl,
    subscription.eventTypes,
    subscription.mode,
    subscription.groupId,
    subscription.minIntervalSeconds,
    subscription.createdMs,
    subscription.createdBy,
    subscription.expiresMs,
  ]);
}

export const subscriptionRecords: RecordKind<Subscription> = {
  prefix: subscriptionsPrefix,
  decode: (text, name) => {
    const subscription = decodeSubscription(text);
    if (subscription === undefined) return undefined;
    return keyOf(subscription) === subscriptionsPrefix + name ? subscription : undefined;
  },
};

/** When a subscriber was last notified. */
export interface SubscriberTurn {
  readonly id: SubscriptionId;
  readonly toldMs: number;
}

export const subscriberTurns: RecordKind<SubscriberTurn> = {
  prefix: subscriptionTurnsPrefix,
  decode: (text, name) => ({ id: name as SubscriptionId, toldMs: Number(text) }),
};

/** Undefined for what is no record. */
export function decodeSubscription(text: string): Subscription | undefined {
  const row = parseRecord(text);
  if (!isRow(row)) return undefined;
  const [id, tenantId, callbackUrl, eventTypes, mode, groupId, ...times] = row;
  const [minIntervalSeconds, createdMs, createdBy, expiresMs] = times;
  return {
    id,
    tenantId,
    callbackUrl,
    eventTypes,
    mode,
    groupId,
    minIntervalSeconds,
    createdMs,
    createdBy,
    expiresMs,
  };
}

type Row = readonly [
  id: SubscriptionId,
  tenantId: TenantId,
  callbackUrl: string,
  eventTypes: readonly string[],
  mode: DeliveryMode,
  groupId: string,
  minIntervalSeconds: number,
  createdMs: number,
  createdBy: string,
  expiresMs: number,
];

function isRow(row: unknown): row is Row {
  if (!Array.isArray(row) || row.length !== 10) return false;
  const [id, tenantId, callbackUrl, eventTypes, mode, groupId, ...times] = row as unknown[];
  const [interval, createdMs, createdBy, expiresMs] = times;
  return (
    [id, tenantId, callbackUrl, groupId, createdBy].every((each) => typeof each === "string") &&
    Array.isArray(eventTypes) &&
    eventTypes.length > 0 &&
    eventTypes.every((each) => typeof each === "string") &&
    (deliveryModes as readonly unknown[]).includes(mode) &&
    [interval, createdMs, expiresMs].every((each) => Number.isSafeInteger(each))
  );
}
