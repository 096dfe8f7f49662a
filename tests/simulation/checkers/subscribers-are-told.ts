/**
 * A queue that keeps having work is told to its subscribers within their interval, for as long as they are
 * subscribed and whatever crashed before; and a subscription or renewal that was acknowledged is not lost by a crash.
 */
import { queueOf, type TenantId } from "@codeq/queue";
import { subscriptionKey } from "../../../packages/server/src/core/store/keys.ts";
import { audienceName } from "../../../packages/server/src/features/subscriptions/audience.ts";
import {
  decodeSubscription,
  type Subscription,
} from "../../../packages/server/src/features/subscriptions/subscription-record.ts";
import type { World } from "../world.ts";
import type { MakeChecker } from "./checker.ts";

/** What the server may take beside the interval: the answer of somebody else, and its own turn. */
const slackMs = 5000;
/** How long a subscriber that did not answer is left alone at most. */
const silentMsMax = 60_000;

interface Known {
  readonly subscription: Subscription;
  readonly acknowledgedMs: number;
}

export const subscribersAreTold: MakeChecker = ({ world, report }) => {
  const known = new Map<string, Known>();
  /** How many renewals may have been made without an acknowledgement; such a one may have ended it sooner. */
  const unsure = new Map<string, number>();
  /** By queue: since when it has work, as far as was seen. */
  const sinceMs = new Map<string, number>();
  /** By queue and audience. */
  const toldMs = new Map<string, number>();
  let badMs = Number.NEGATIVE_INFINITY;
  const keyOf = ({ tenantId, id }: Subscription): string => subscriptionKey(tenantId, id);

  /** As the log says, also of one whose subscriber was never answered or has asked for its end. */
  const keptAs = (key: string): Subscription | undefined => {
    const bytes = world.ledger.keys.get(key);
    return bytes && decodeSubscription(bytes.toString());
  };
  const count = (id: string, change: number): void => {
    const renewals = (unsure.get(id) ?? 0) + change;
    if (renewals > 0) unsure.set(id, renewals);
    else unsure.delete(id);
  };

  world.subscribers.onTold = ({ tenantId, eventType, subscriptionId }) => {
    const subscription = keptAs(subscriptionKey(tenantId, subscriptionId));
    if (subscription === undefined) return;
    const queue = `${tenantId}/${queueOf(eventType)}`;
    toldMs.set(`${queue}/${audienceName(subscription)}`, world.nowMs);
  };

  const check = ({ subscription, acknowledgedMs }: Known, queue: string): void => {
    if (world.wallMsMax >= subscription.expiresMs) return;
    if (!world.ledger.keys.has(keyOf(subscription))) return;
    const workMs = sinceMs.get(queue);
    if (workMs === undefined) return;
    const last = toldMs.get(`${queue}/${audienceName(subscription)}`) ?? 0;
    const quietMs = Math.max(workMs, acknowledgedMs, last, badMs, undisturbedMs(world));
    const { subscriptionMinIntervalSeconds: floor } = world.plan.config;
    const intervalMs = Math.max(subscription.minIntervalSeconds, floor) * 1000;
    const silentMs = badMs > world.nowMs - 10 * silentMsMax ? silentMsMax : 0;
    if (world.nowMs - quietMs <= intervalMs + silentMs + slackMs) return;
    report(`${queue} has work since ${workMs} and ${subscription.id} was told last at ${last}`);
  };

  return {
    answered: ({ verb, answer, answeredMs, input }) => {
      if (!answer.ok) return;
      if (verb === "subscribe" || verb === "renewSubscription") {
        const { value: subscription } = answer;
        known.set(subscription.id, { subscription, acknowledgedMs: answeredMs });
        if (verb === "renewSubscription") count(subscription.id, -1);
      } else if (verb === "unsubscribe") known.delete(input.id);
    },
    invoked: ({ verb, input }) => {
      if (verb === "unsubscribe") known.delete(input.id);
      else if (verb === "renewSubscription") count(input.id, 1);
    },
    died: () => sinceMs.clear(),
    recovered: ({ mayHaveLost }) => {
      for (const [id, { subscription, acknowledgedMs }] of known) {
        const kept = keptAs(keyOf(subscription));
        if (kept !== undefined && kept.expiresMs >= subscription.expiresMs) continue;
        if (kept === undefined) known.delete(id);
        else known.set(id, { subscription: kept, acknowledgedMs });
        const mayBeOver = world.wallMsMax >= subscription.expiresMs;
        if (mayBeOver || unsure.has(id) || mayHaveLost(acknowledgedMs)) continue;
        const what = kept === undefined ? id : `a renewal of ${id}`;
        report(`${what} was acknowledged and is lost`);
      }
      unsure.clear();
    },
    stepped: () => {
      if (world.subscribers.badness > 0) badMs = world.nowMs;
      const core = world.serving?.core;
      if (core?.store.state !== "open") return;
      for (const queue of core.shard.queues.all()) {
        const name = `${queue.tenantId}/${queue.name}`;
        if (queue.topPriority < 0) sinceMs.delete(name);
        else if (!sinceMs.has(name)) sinceMs.set(name, world.nowMs);
      }
      for (const each of known.values()) {
        const { tenantId, eventTypes } = each.subscription;
        for (const queue of queuesOf(core.shard.queues.ofTenant(tenantId), eventTypes)) {
          check(each, `${tenantId}/${queue}`);
        }
      }
    },
  };
};

function queuesOf(
  queues: Iterable<{ readonly name: string; readonly tenantId: TenantId }>,
  eventTypes: readonly string[],
): readonly string[] {
  if (!eventTypes.includes("*")) return eventTypes.map(queueOf);
  return Array.from(queues, ({ name }) => name);
}

/** Since when nothing has gone wrong. */
function undisturbedMs(world: World): number {
  return Math.max(world.healthySinceMs, world.stalledMs, world.weather.slowUntilMs);
}
