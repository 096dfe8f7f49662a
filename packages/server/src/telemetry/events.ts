/** One function for each kind of event. It is called when the event is durable, and updates the metrics. */
import type { ErrorCode } from "@codeq/protocol";
import {
  type Change,
  queueOf,
  type SchedulePause,
  type Skips,
  type Task,
  type TenantId,
  timedOut,
} from "@codeq/queue";
import { type Metrics, storeOperations } from "./metrics.ts";
import { noTracing, type RefusedCall, type Tracing } from "./tracing/tracing.ts";

export type OperationOutcome = "ok" | "refused" | "failed";
type RateHit = Parameters<Metrics["rateLimitHits"]["inc"]>;
/** The operations that rate limits count, by the names of the Go server. */
export type RateOperation = RateHit[1];
type QuotaRefusal = Parameters<Metrics["quotaRefusals"]["inc"]>;

/** What a schedule did. */
export interface ScheduleReport {
  readonly tenantId: TenantId;
  readonly scheduleId: string;
  readonly atMs: number;
  readonly command: string;
  readonly fired: number;
  /** How late the last of the tasks was created. */
  readonly lateMs: number;
  readonly skipped: readonly Skips[];
  /** The schedule was paused. */
  readonly pause?: SchedulePause | undefined;
  readonly isResumed?: boolean;
}

export class Events {
  readonly #metrics: Metrics;
  readonly #tracing: Tracing;

  /** `tracing` gets the refusals. */
  constructor(metrics: Metrics, tracing: Tracing = noTracing) {
    this.#metrics = metrics;
    this.#tracing = tracing;
  }

  /** A task was not created, or a result was not accepted. */
  taskRefused(refused: RefusedCall): void {
    this.#tracing.refused(refused);
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

  /** A schedule created tasks, or skipped nominal instants. */
  scheduled({ command, fired, lateMs, skipped }: ScheduleReport): void {
    const queue = queueOf(command);
    this.#metrics.spellings.note(queue, command);
    if (fired > 0) {
      this.#metrics.scheduleFired.add(fired, queue);
      this.#metrics.scheduleLateness.observe(lateMs / 1000);
    }
    for (const { why, count } of skipped) this.#metrics.scheduleSkipped.add(count, queue, why);
  }

  /** An event was sent to the reader of a feed, or the reader missed it. */
  eventFed(outcome: "sent" | "missed"): void {
    this.#metrics.feedEvents.inc(outcome);
  }

  webhookDelivered(command: string, outcome: "success" | "failure"): void {
    this.#metrics.webhookDeliveries.inc("task_result", command, outcome);
  }

  /** A subscriber was notified that a queue has work, or the notification failed. */
  notified(command: string, outcome: "success" | "failure"): void {
    this.#metrics.webhookDeliveries.inc("queue_ready", command, outcome);
  }

  rateLimited(...hit: RateHit): void {
    this.#metrics.rateLimitHits.inc(...hit);
  }

  quotaExceeded(...quota: QuotaRefusal): void {
    this.#metrics.quotaRefusals.inc(...quota);
  }

  /** A caller was refused because of its token or its rights. */
  accessRefused(code: ErrorCode): void {
    this.#metrics.accessRefusals.inc(code);
  }

  operated(operation: string, outcome: OperationOutcome, seconds: number, times = 1): void {
    this.#metrics.operationSeconds.observeTimes(times, seconds, operation, outcome);
  }

  /** Every task of a group waited for the whole group. */
  groupDurable(changes: readonly Change[], seconds: number): void {
    const counts = { "task.save": 0, "task.claim": 0, "result.save": 0 };
    for (let at = 0; at < changes.length; at++) {
      const { because } = changes[at] as Change;
      if (because === "created") counts["task.save"] += 1;
      else if (because === "claimed") counts["task.claim"] += 1;
      else if (because === "finished") counts["result.save"] += 1;
    }
    const { storeOperationSeconds } = this.#metrics;
    for (const operation of storeOperations) {
      const count = counts[operation];
      if (count > 0) storeOperationSeconds.observeTimes(count, seconds, operation);
    }
  }

  /** The lease of a task ended before its worker submitted a result. */
  #leaseEnded(queue: string, isTimeout: boolean): void {
    if (isTimeout) this.#metrics.taskTimedOut.inc(queue);
    else this.#metrics.leaseExpired.inc(queue);
  }

  /** The task is completed, failed or a dead letter. */
  #ended(task: Task, queue: string): void {
    const isCompleted = task.place.in === "done" && task.place.how === "completed";
    const status = isCompleted ? "COMPLETED" : "FAILED";
    this.#metrics.taskCompleted.inc(queue, status);
    const seconds = (task.updatedMs - task.createdMs) / 1000;
    this.#metrics.taskProcessingLatency.observe(Math.max(seconds, 0), queue, status);
  }
}
