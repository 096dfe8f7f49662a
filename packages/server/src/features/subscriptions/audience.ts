/**
 * A set of subscribers of which one is notified when a queue has work: a single subscriber (fanout), the
 * members of a group in turn, or the subscribers of a hash, where the minute decides. Members that cannot be
 * notified now are skipped.
 */
import type { TenantId } from "@codeq/queue";
import type { HeapItem } from "../../core/indexed-heap.ts";
import type { DeliveryMode, Subscription } from "./subscription-record.ts";
import type { Subscriber } from "./subscriptions.ts";

/** A queue that somebody wants to hear of. */
export class WatchedQueue {
  readonly tenantId: TenantId;
  readonly name: string;
  /** Whether something can be claimed, as far as was told. */
  hasWork = false;
  /** How often it began to have work. */
  beginnings = 0;
  readonly audiences: Map<string, Audience> = new Map();
  /** Audiences that wait until there is work; none while there is some. */
  readonly asleep: Set<Audience> = new Set();
  /** Those of several subscribers, for whom a new beginning is another's turn. */
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
  /** On the monotonic clock: when to look whether somebody has to be told. */
  dueMs = 0;
  heapIndex = -1;
  /** Whether it waits for its turn with the sender. */
  isWaiting = false;
  /** On the monotonic clock: when each member was told of this queue. */
  readonly toldMs: Map<Subscriber, number> = new Map();
  /** On the monotonic clock: when the queue is told again while it has the same work. */
  againMs = Number.NEGATIVE_INFINITY;
  /** How often the queue had begun to have work when somebody was last told. */
  toldBeginnings = -1;
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

  /** Whether anybody is left. */
  remove(subscriber: Subscriber): boolean {
    const at = this.members.indexOf(subscriber);
    if (at >= 0) this.members.splice(at, 1);
    this.toldMs.delete(subscriber);
    return this.members.length > 0;
  }

  /** Who comes first, second and so on. */
  inOrder(wallMs: number): readonly Subscriber[] {
    const { members } = this;
    switch (this.mode) {
      case "fanout":
        return members;
      case "group":
        return members.toSorted((a, b) => a.toldMs - b.toldMs || (isBefore(a, b) ? -1 : 1));
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
