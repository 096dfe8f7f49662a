/**
 * Receives every durable change of a task in commit order and passes it on to metrics, traces, feeds,
 * retention and webhooks.
 */
import { type Change, startByMsOf } from "@codeq/queue";
import type { Events, ScheduleReport } from "../../telemetry/events.ts";
import type { Feed } from "../../telemetry/feed.ts";
import { noTracing, type Tracing } from "../../telemetry/tracing/tracing.ts";
import { eventsOf, eventsOfSchedule } from "../search/feed-events.ts";

export class ChangeObservers {
  /** Called when a task ended, with the end of its retention; undefined for never. */
  onEnd: (expiresMs: number | undefined) => void = () => {};
  /** Called when a task waits that has to begin before a deadline. */
  onStartBy: (startByMs: number) => void = () => {};
  /** Called when a task with a webhook ended. */
  onWebhook: (dueMs: number) => void = () => {};
  readonly #events: Events;
  readonly #feed: Feed;
  readonly #tracing: Tracing;

  constructor(parts: {
    readonly events: Events;
    readonly feed: Feed;
    readonly tracing?: Tracing | undefined;
  }) {
    this.#events = parts.events;
    this.#feed = parts.feed;
    this.#tracing = parts.tracing ?? noTracing;
  }

  /** What a schedule did, when that is durable. */
  scheduled(report: ScheduleReport): void {
    this.#events.scheduled(report);
    if (this.#feed.isHeard) for (const event of eventsOfSchedule(report)) this.#feed.publish(event);
  }

  observe(change: Change): void {
    this.#events.changed(change);
    this.#tracing.changed(change);
    if (this.#feed.isHeard) for (const event of eventsOf(change)) this.#feed.publish(event);
    const { after, because } = change;
    if (after?.extras !== undefined) {
      const startByMs = startByMsOf(after);
      if (startByMs !== undefined) this.onStartBy(startByMs);
    }
    if (because === "linked") return;
    if (after?.place.in !== "done" && after?.place.in !== "dead") return;
    this.onEnd(after.place.expiresMs);
    if (after.webhook !== "") this.onWebhook(after.place.atMs);
  }
}
