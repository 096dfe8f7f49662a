/**
 * One function per thing that happened, called after it became durable. Each feeds every kind of
 * telemetry that is interested in it.
 */
import type { ErrorCode } from "@codeq/protocol";
import type { Task, WorkerId } from "@codeq/queue";
import type { Feed, TaskEvent } from "./feed.ts";
import type { Metrics } from "./metrics.ts";

export type OperationOutcome = "ok" | "refused" | "failed";
type RateHit = Parameters<Metrics["rateLimitHits"]["inc"]>;
/** What counts in a rate limit, by the names of the contract. */
export type RateOperation = RateHit[1];
type QuotaRefusal = Parameters<Metrics["quotaRefusals"]["inc"]>;

/** A task came back from this worker, to be delivered again. */
interface Comeback {
  readonly workerId: WorkerId;
  /** 0 when it is ready at once. */
  readonly delaySeconds: number;
}

export class Events {
  readonly #metrics: Metrics;
  readonly #feed: Feed;

  constructor(parts: { readonly metrics: Metrics; readonly feed: Feed }) {
    this.#metrics = parts.metrics;
    this.#feed = parts.feed;
  }

  taskCreated(task: Task): void {
    this.#metrics.taskCreated.inc(task.command);
    if (!this.#feed.isHeard) return;
    const { place, updatedMs } = task;
    const delayMs = place.in === "delayed" ? place.dueMs - updatedMs : 0;
    const delay = delayMs > 0 ? { delaySeconds: Math.ceil(delayMs / 1000) } : {};
    this.#feed.tell({ event: "created", ...about(task), ...delay });
  }

  /** Its time has come. */
  taskPromoted(task: Task): void {
    if (this.#feed.isHeard) this.#feed.tell({ event: "promoted", ...about(task) });
  }

  taskClaimed(task: Task): void {
    this.#metrics.taskClaimed.inc(task.command);
    if (!this.#feed.isHeard || task.place.in !== "leased") return;
    this.#feed.tell({ event: "claimed", ...about(task), workerId: task.place.workerId });
  }

  /** A worker could not do it, and it is tried again. */
  taskRetried(task: Task, { workerId, delaySeconds }: Comeback, reason: string): void {
    if (!this.#feed.isHeard) return;
    const more = { workerId, delaySeconds, ...(reason === "" ? {} : { reason }) };
    this.#feed.tell({ event: "retried", ...aboutCounted(task), ...more });
  }

  /** A worker gave it back, or was gone before it could be sent. */
  taskReleased(
    task: Task,
    workerId: WorkerId,
    how: "abandoned" | "interrupted" | "undelivered",
  ): void {
    if (!this.#feed.isHeard) return;
    const known = how === "abandoned" ? aboutCounted(task) : about(task);
    this.#feed.tell({ event: "released", ...known, workerId, how });
  }

  /** Completed, failed or buried; the worker is the one that had it last. */
  taskEnded(task: Task, workerId: WorkerId): void {
    const isCompleted = task.place.in === "done" && task.place.how === "completed";
    const status = isCompleted ? "COMPLETED" : "FAILED";
    this.#metrics.taskCompleted.inc(task.command, status);
    const seconds = (task.updatedMs - task.createdMs) / 1000;
    this.#metrics.taskProcessingLatency.observe(Math.max(seconds, 0), task.command, status);
    if (!this.#feed.isHeard) return;
    if (isCompleted) {
      this.#feed.tell({ event: "completed", ...about(task), workerId });
      return;
    }
    const isDead = task.place.in === "dead";
    const how = isDead ? "dead_letter" : "permanent";
    const known = isDead ? aboutCounted(task) : about(task);
    this.#feed.tell({ event: "failed", ...known, workerId, how, reason: task.error });
  }

  /** The worker that had it went silent; `taskEnded` follows when it was the last attempt. */
  leaseExpired(task: Task, { workerId, delaySeconds }: Comeback): void {
    this.#metrics.leaseExpired.inc(task.command);
    if (!this.#feed.isHeard) return;
    const delay = task.place.in === "dead" ? {} : { delaySeconds };
    this.#feed.tell({ event: "lease_expired", ...aboutCounted(task), workerId, ...delay });
  }

  /** An event reached the reader of a feed, or did not. */
  eventFed(outcome: "told" | "missed"): void {
    this.#metrics.feedEvents.inc(outcome);
  }

  webhookDelivered(command: string, outcome: "success" | "failure"): void {
    this.#metrics.webhookDeliveries.inc("task_result", command, outcome);
  }

  rateLimited(...hit: RateHit): void {
    this.#metrics.rateLimitHits.inc(...hit);
  }

  quotaExceeded(...quota: QuotaRefusal): void {
    this.#metrics.quotaRefusals.inc(...quota);
  }

  /** Somebody was refused for who it is or what it may do. */
  accessRefused(code: ErrorCode): void {
    this.#metrics.accessRefusals.inc(code);
  }

  operated(operation: string, outcome: OperationOutcome, seconds: number): void {
    this.#metrics.operationSeconds.observe(seconds, operation, outcome);
  }
}

type About = Omit<TaskEvent, "event" | "workerId" | "how" | "delaySeconds" | "reason">;

/** What every event says of its task, whose delivery has not been counted. */
function about(task: Task): About {
  const { id, tenantId, command, priority, attempts, updatedMs } = task;
  return { atMs: updatedMs, tenantId, taskId: id, command, priority, attempt: attempts + 1 };
}

/** The same for a task whose delivery came back and was counted. */
function aboutCounted(task: Task): About {
  return { ...about(task), attempt: task.attempts };
}
