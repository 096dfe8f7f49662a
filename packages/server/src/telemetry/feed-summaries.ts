/**
 * Summaries of the events of a tenant: counts by queue, sent at most once a second. All readers of a tenant share one
 * count, so the cost of an event does not depend on the number of readers. While there are no events, nothing is
 * sent and no timer runs.
 */
import type { ErrorCode } from "@codeq/protocol";
import { queueOf, type TenantId } from "@codeq/queue";
import type { Clock } from "../core/clock.ts";
import type { Feed, FeedEvent } from "./feed.ts";

export type EventCounts = Partial<Record<FeedEvent["event"], number>>;

export interface FeedSummary {
  readonly atMs: number;
  readonly queues: ReadonlyMap<string, EventCounts>;
  /** Events of queues beyond `queuesMax`. */
  readonly others: number;
}

export interface SummaryListener {
  readonly hear: (summary: FeedSummary) => void;
  /** The feed ends, for this reason. */
  readonly end: (code: ErrorCode) => void;
}

const everyMs = 1000;
/** Queues with their own counts; all further queues are counted together. */
const queuesMax = 100;

export class FeedSummaries {
  readonly #feed: Feed;
  readonly #clock: Clock;
  readonly #tallies: Map<TenantId | undefined, Tally> = new Map();
  #size = 0;

  constructor(parts: { readonly feed: Feed; readonly clock: Clock }) {
    this.#feed = parts.feed;
    this.#clock = parts.clock;
  }

  get size(): number {
    return this.#size;
  }

  /** The number of listeners of this tenant or, if undefined, of all tenants. */
  sizeOf(tenantId: TenantId | undefined): number {
    return this.#tallies.get(tenantId)?.listeners.size ?? 0;
  }

  /** Returns a function that stops listening. */
  listen(tenantId: TenantId | undefined, listener: SummaryListener): () => void {
    const known = this.#tallies.get(tenantId);
    const tally = known ?? new Tally(this.#feed, this.#clock, tenantId);
    if (known === undefined) this.#tallies.set(tenantId, tally);
    tally.listeners.add(listener);
    this.#size += 1;
    return () => {
      if (!tally.listeners.delete(listener)) return;
      this.#size -= 1;
      if (tally.listeners.size > 0) return;
      tally.close();
      this.#tallies.delete(tenantId);
    };
  }
}

class Tally {
  readonly listeners: Set<SummaryListener> = new Set();
  readonly #clock: Clock;
  readonly #stopListening: () => void;
  #queues = new Map<string, EventCounts>();
  #others = 0;
  #cancelTimer: (() => void) | undefined;

  constructor(feed: Feed, clock: Clock, tenantId: TenantId | undefined) {
    this.#clock = clock;
    this.#stopListening = feed.listen({
      tenantId,
      isShared: true,
      hear: (event) => this.#count(event),
      end: (code) => {
        for (const each of [...this.listeners]) each.end(code);
      },
    });
  }

  close(): void {
    this.#stopListening();
    this.#cancelTimer?.();
  }

  #count({ event, command }: FeedEvent): void {
    this.#cancelTimer ??= this.#clock.after(everyMs, () => this.#publish());
    const queue = queueOf(command);
    let counts = this.#queues.get(queue);
    if (counts === undefined) {
      if (this.#queues.size >= queuesMax) {
        this.#others += 1;
        return;
      }
      counts = {};
      this.#queues.set(queue, counts);
    }
    counts[event] = (counts[event] ?? 0) + 1;
  }

  #publish(): void {
    const summary = { atMs: this.#clock.nowMs(), queues: this.#queues, others: this.#others };
    this.#queues = new Map();
    this.#others = 0;
    this.#cancelTimer = undefined;
    for (const each of [...this.listeners]) each.hear(summary);
  }
}
