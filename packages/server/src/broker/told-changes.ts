/**
 * Tells the feed what the broker has decided, once it is durable. Decisions come here as they are
 * made and before anything that follows from them is decided, and commits are done in that order. So
 * what is told of a task is in the order in which it happened, whoever waits for which answer.
 */
import type { Task, WorkerId } from "@codeq/queue";
import type { Feed, TaskEvent } from "../telemetry/feed.ts";

/** How a task came back from a worker. */
export type WayBack =
  | { readonly by: "nack"; readonly reason: string }
  | { readonly by: "abandon" | "expiry" | "release" };

export class ToldChanges {
  readonly #feed: Feed;

  constructor(feed: Feed) {
    this.#feed = feed;
  }

  created(task: Task, done: Promise<void>): void {
    if (this.#feed.isHeard) {
      this.#tellAfter(done, [{ event: "created", ...about(task), ...delayOf(task) }]);
    }
  }

  promoted(tasks: readonly Task[], done: Promise<void>): void {
    if (!this.#feed.isHeard) return;
    this.#tellAfter(
      done,
      tasks.map((task) => ({ event: "promoted", ...about(task) })),
    );
  }

  claimed(tasks: readonly { readonly task: Task }[], done: Promise<void>): void {
    if (!this.#feed.isHeard) return;
    this.#tellAfter(
      done,
      tasks.map(({ task }) => ({ event: "claimed", ...about(task), ...workerOf(task) })),
    );
  }

  /** Back from a worker, to be claimed now or later. */
  cameBack(change: { before: Task; after: Task; way: WayBack }, done: Promise<void>): void {
    if (!this.#feed.isHeard) return;
    const { before, after, way } = change;
    const known = { ...aboutReturned(before, after), ...workerOf(before) };
    this.#tellAfter(done, [{ ...known, ...eventOf(after, way) }]);
  }

  /** A worker finished it or, when there is a way that it came back, it was buried. */
  ended(
    change: { before: Task; after: Task; way?: WayBack | undefined },
    done: Promise<void>,
  ): void {
    if (!this.#feed.isHeard) return;
    const { before, after, way } = change;
    const known = { ...aboutReturned(before, after), ...workerOf(before) };
    const { place, error: reason } = after;
    const events: TaskEvent[] = [];
    if (way?.by === "expiry") events.push({ event: "lease_expired", ...known });
    if (place.in === "done" && place.how === "completed") {
      events.push({ event: "completed", ...known });
    } else {
      const how = place.in === "dead" ? "dead_letter" : "permanent";
      events.push({ event: "failed", ...known, how, reason });
    }
    this.#tellAfter(done, events);
  }

  #tellAfter(done: Promise<void>, events: readonly TaskEvent[]): void {
    done.then(
      () => {
        for (const event of events) this.#feed.tell(event);
      },
      // What was not kept has not happened, and whoever asked for it is told why.
      () => {},
    );
  }
}

type About = Pick<TaskEvent, "atMs" | "tenantId" | "taskId" | "command" | "priority" | "attempt">;

/** What every event says of its task. */
function about(task: Task): About {
  const { id, tenantId, command, priority, attempts, updatedMs } = task;
  return { atMs: updatedMs, tenantId, taskId: id, command, priority, attempt: attempts + 1 };
}

/** The same after a delivery, which may have been counted. */
function aboutReturned(before: Task, after: Task): About {
  return { ...about(after), attempt: before.attempts + 1 };
}

function workerOf({ place }: Task): { workerId?: WorkerId } {
  return place.in === "leased" ? { workerId: place.workerId } : {};
}

function delayOf({ place, updatedMs }: Task): { delaySeconds?: number } {
  if (place.in !== "delayed") return {};
  return { delaySeconds: Math.max(0, Math.ceil((place.dueMs - updatedMs) / 1000)) };
}

function eventOf(after: Task, way: WayBack): Pick<TaskEvent, "event"> & Partial<TaskEvent> {
  switch (way.by) {
    case "nack": {
      const reason = way.reason === "" ? {} : { reason: way.reason };
      return { event: "retried", ...delayOf(after), ...reason };
    }
    case "abandon":
      return { event: "released", how: after.handBacks > 0 ? "interrupted" : "abandoned" };
    case "release":
      return { event: "released", how: "undelivered" };
    case "expiry":
      return { event: "lease_expired", ...delayOf(after) };
  }
}
