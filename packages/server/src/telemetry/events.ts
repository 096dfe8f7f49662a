/** One function for each kind of event. It is called when the event is durable, and updates the metrics. */
import type { ErrorCode } from "@codeq/protocol";
import { type Change, queueOf, type Task, timedOut } from "@codeq/queue";
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

  /** A durable change of a task. */
  changed({ before, after, because, reason }: Change): void {
    if (after === undefined) return;
    const queue = queueOf(after.command);
    const { spellings } = this.#metrics;
    if (because === "created" || !spellings.has(queue)) spellings.note(queue, after.command);
    if (because === "created") this.#metrics.taskCreated.inc(queue);
    else if (because === "claimed") this.#metrics.taskClaimed.inc(queue);
    else if (because === "expired") this.#leaseEnded(queue, reason === timedOut);
    else if (because === "lapsed") this.#metrics.taskLapsed.inc(queue);
    const { place } = after;
    const isEnd = place.in === "done" || place.in === "dead";
    if (before !== undefined && isEnd) this.#ended(after, queue);
  }

  /** An event reached the reader of a feed, or did not. */
  eventFed(outcome: "told" | "missed"): void {
    this.#metrics.feedEvents.inc(outcome);
  }

  webhookDelivered(command: string, outcome: "success" | "failure"): void {
    this.#metrics.webhookDeliveries.inc("task_result", command, outcome);
  }

  /** A subscriber was told that a queue has work, or could not be told. */
  notified(command: string, outcome: "success" | "failure"): void {
    this.#metrics.webhookDeliveries.inc("queue_ready", command, outcome);
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

  /** A task was taken back from its worker. */
  #leaseEnded(queue: string, isTimeout: boolean): void {
    if (isTimeout) this.#metrics.taskTimedOut.inc(queue);
    else this.#metrics.leaseExpired.inc(queue);
  }

  /** Completed, failed or buried. */
  #ended(task: Task, queue: string): void {
    const isCompleted = task.place.in === "done" && task.place.how === "completed";
    const status = isCompleted ? "COMPLETED" : "FAILED";
    this.#metrics.taskCompleted.inc(queue, status);
    const seconds = (task.updatedMs - task.createdMs) / 1000;
    this.#metrics.taskProcessingLatency.observe(Math.max(seconds, 0), queue, status);
  }
}
