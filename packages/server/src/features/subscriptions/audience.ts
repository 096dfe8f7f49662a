/**
 * A set of subscribers of which one is notified when a queue has work: a single subscriber (fanout), the
 * members of a group in turn, or the subscribers of a hash, where the minute decides. Members that cannot be
 * notified now are skipped.
 */
import type { TenantId } from "@codeq/queue";
import type { HeapItem } from "../../core/indexed-heap.ts";
import type { DeliveryMode, Subscription } from "./subscription-record.ts";
import type { Subscriber } from "./subscriptions.ts";

/** A queue with subscribers. */
export class WatchedQueue {
  readonly tenantId: TenantId;
  readonly name: string;
  /** Whether tasks can be claimed, by the last report of the broker. */
  hasWork = false;
  /** How often it began to have work. */
  beginnings = 0;
  readonly audiences: Map<string, Audience> = new Map();
  /** Audiences that wait until there is work; none while there is some. */
  readonly asleep: Set<Audience> = new Set();
  /** Audiences of several subscribers: when work begins again, the next member is notified. */
  readonly shared: Set<Audience> = new Set();

  constructor(tenantId: TenantId, name: string) {
    this.tenantId = tenantId;
    this.name = name;
  }
}

/** A notification that has not been delivered. */
export interface Notification {
  readonly id: string;
  /** How often it was sent. */
  tries: number;
}

export class Audience implements HeapItem {
  readonly watched: WatchedQueue;
  readonly mode: DeliveryMode;
  /** In the order of their ids. */
  readonly members: Subscriber[] = [];
  /** On the monotonic clock: when to check whether a member has to be notified. */
  dueMs = 0;
  heapIndex = -1;
  /** Whether the sender has it, until there is a slot. */
  isWaiting = false;
  /** On the monotonic clock: when each member was notified of this queue. */
  readonly notifiedMs: Map<Subscriber, number> = new Map();
  /** On the monotonic clock: when to notify again while the queue has the same work. */
  againMs = Number.NEGATIVE_INFINITY;
  /** How often the queue had begun to have work at the last notification. */
  notifiedBeginnings = -1;
  notification: Notification | undefined;

  constructor(watched: WatchedQueue, mode: DeliveryMode) {
    this.watched = watched;
    this.mode = mode;
  }

  add(subscriber: Subscriber): void {
    const { id } = subscriber.subscription;
    const at = this.members.findIndex(({ subscription }) => subscription.id > id);
    this.members.splice(at < 0 ? this.members.length : at, 0, subscriber);
  }

  /** Returns whether members are left. */
  remove(subscriber: Subscriber): boolean {
    const at = this.members.indexOf(subscriber);
    if (at >= 0) this.members.splice(at, 1);
    this.notifiedMs.delete(subscriber);
    return this.members.length > 0;
  }

  /** The members, the one to notify first. */
  inOrder(wallMs: number): readonly Subscriber[] {
    const { members } = this;
    switch (this.mode) {
      case "fanout":
        return members;
      case "group":
        return members.toSorted((a, b) => a.notifiedMs - b.notifiedMs || (isBefore(a, b) ? -1 : 1));
      case "hash": {
        const first = Math.floor(wallMs / 60_000) % members.length;
        return [...members.slice(first), ...members.slice(0, first)];
      }
    }
  }
}

function isBefore(a: Subscriber, b: Subscriber): boolean {
  return a.subscription.id < b.subscription.id;
}

/** Which audience of a queue a subscription belongs to. */
export function audienceName({ mode, groupId, id }: Subscription): string {
  return mode === "fanout" ? `${mode}/${id}` : `${mode}/${groupId}`;
}
