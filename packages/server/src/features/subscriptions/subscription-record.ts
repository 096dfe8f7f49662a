/** A subscription to availability notifications as text, and the time of its last notification. */
import { create, put, remove } from "@codeq/engine";
import * as api from "@codeq/protocol/api";
import type { TenantId } from "@codeq/queue";
import type { RecordKind } from "../../core/control/control-records.ts";
import {
  subscriptionKey,
  subscriptionsPrefix,
  subscriptionTurnKey,
  subscriptionTurnsPrefix,
} from "../../core/store/keys.ts";
import { fieldsOf, rowOf } from "../../core/store/row-of.ts";
import type { RecordWrite } from "../../core/store/store.ts";

declare const brand: unique symbol;

export type SubscriptionId = string & { readonly [brand]: "SubscriptionId" };

export type DeliveryMode = Subscription["mode"];
export type Subscription = Omit<api.KeptOf<typeof api.Subscription>, "id"> & {
  readonly id: SubscriptionId;
  readonly tenantId: TenantId;
};

const row = rowOf({
  ...fieldsOf(api.Subscription, "subscriptionId"),
  ...fieldsOf(api.Topic, "tenantId"),
  ...fieldsOf(api.Subscription, "callbackUrl", "eventTypes", "deliveryMode", "groupId"),
  ...fieldsOf(api.Subscription, "minIntervalSeconds", "createdAt", "createdBy", "expiresAt"),
});

export function writeOfNewSubscription(subscription: Subscription): RecordWrite {
  return create(keyOf(subscription), row.encode(subscription));
}

export function writeOfSubscription(subscription: Subscription): RecordWrite {
  return put(keyOf(subscription), row.encode(subscription));
}

export function removalsOfSubscription(subscription: Subscription): RecordWrite[] {
  return [remove(keyOf(subscription)), remove(subscriptionTurnKey(subscription.id))];
}

/** Writes when a subscriber was last notified, which also decides the turns in its group. */
export function writeOfTurn(id: SubscriptionId, notifiedMs: number): RecordWrite {
  return put(subscriptionTurnKey(id), String(notifiedMs));
}

function keyOf({ tenantId, id }: Subscription): string {
  return subscriptionKey(tenantId, id);
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
export interface LastNotified {
  readonly id: SubscriptionId;
  readonly notifiedMs: number;
}

export const lastNotified: RecordKind<LastNotified> = {
  prefix: subscriptionTurnsPrefix,
  decode: (text, name) => ({ id: name as SubscriptionId, notifiedMs: Number(text) }),
};

/** Undefined for what is no record. */
export function decodeSubscription(text: string): Subscription | undefined {
  return row.decode(text) as Subscription | undefined;
}
