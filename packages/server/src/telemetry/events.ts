/**
 * One function per thing that happened, called after it became durable, and counted in the metrics.
 * Feeds are told by the broker, which knows the order of things.
 */
import type { ErrorCode } from "@codeq/protocol";
import type { Task } from "@codeq/queue";
import type { Metrics } from "./metrics.ts";

export type OperationOutcome = "ok" | "refused" | "failed";
type RateHit = Parameters<Metrics["rateLimitHits"]["inc"]>;
/** What counts in a rate limit, by the names of the Go server. */
export type RateOperation = RateHit[1];
type QuotaRefusal = Parameters<Metrics["quotaRefusals"]["inc"]>;

export class Events {
  readonly #metrics: Metrics;

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  taskCreated(task: Task): void {
    this.#metrics.taskCreated.inc(task.command);
  }

  taskClaimed(task: Task): void {
    this.#metrics.taskClaimed.inc(task.command);
  }

  /** Completed, failed or buried. */
  taskEnded(task: Task): void {
    const isCompleted = task.place.in === "done" && task.place.how === "completed";
    const status = isCompleted ? "COMPLETED" : "FAILED";
    this.#metrics.taskCompleted.inc(task.command, status);
    const seconds = (task.updatedMs - task.createdMs) / 1000;
    this.#metrics.taskProcessingLatency.observe(Math.max(seconds, 0), task.command, status);
  }

  leaseExpired(task: Task): void {
    this.#metrics.leaseExpired.inc(task.command);
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
