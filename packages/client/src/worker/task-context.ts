/** What a handler and the middleware around it know of the task that they run. */
import type { Artifact } from "../api-types.ts";
import type { HandledBatch } from "../batches/batch.ts";
import type { ArtifactContent } from "../payload/artifact.ts";
import type { TraceContext } from "../trace-context.ts";

/** The task that a handler runs: the second argument of every handler. */
export interface TaskContext {
  /** The id of the task. */
  readonly id: string;
  /** The name of the task. */
  readonly task: string;
  /** What the producer sent, as it came; handlers get it checked. */
  readonly payload: unknown;
  /** The same as the JSON text that was sent, with digits that a number of JavaScript cannot hold. */
  readonly payloadText: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** How many attempts there may be; the last one is `attempt === maxAttempts`. */
  readonly maxAttempts: number;
  /** The labels that the producer gave it. */
  readonly tags: readonly string[];
  /**
   * The id of the task that this one was made of: a dead letter that the topic of its queue sent here, or a
   * task that was replayed with changes. Empty for any other task.
   */
  readonly replayOf: string;
  /** The schedule that created the task, and the instant that it was created for; undefined for other tasks. */
  readonly schedule: { readonly id: string; readonly scheduledFor: Date } | undefined;
  /**
   * The batch that the task belongs to; undefined for other tasks. A member adds members while the batch is open:
   * `ctx.batch?.add(load, { from: 1000 }, { idempotencyKey: "rows-1000" })`. The key keeps a retry from adding twice.
   */
  readonly batch: HandledBatch | undefined;
  /** 0 to 9, as it was enqueued. */
  readonly priority: number;
  /** When the server took the task, by its clock. */
  readonly createdAt: Date;
  /**
   * Grows with every attempt of the task. Other systems that remember the highest one they saw can
   * refuse a worker that was overtaken.
   */
  readonly fencingToken: number;
  /**
   * Aborted when going on is of no use: the lease was lost, the task was cancelled, the worker shuts down,
   * or the time is over. Its reason is a `CodeqError` with the code `lease_lost`, `task_cancelled`,
   * `worker_closing`, `handler_timeout` or `task_timeout`.
   */
  readonly signal: AbortSignal;
  /** The trace context that came with the task. */
  readonly trace: TraceContext | undefined;
  /**
   * Stores a file that belongs to the result of the task. It is there when the handler returns; when the
   * handler fails, it goes away. A second one of the same name replaces the first.
   *
   * ```ts
   * await ctx.artifact("report.csv", createReadStream("report.csv"), { contentType: "text/csv" });
   * ```
   */
  artifact(
    name: string,
    content: ArtifactContent,
    options?: { readonly contentType?: string },
  ): Promise<Artifact>;
  /**
   * Tells how far the work has come, from 0 to 1, and what is being done: `ctx.progress(done / total,
   * "pages")`. It goes to `on.progress` of the worker and, at most once a second, to the server, which
   * shows it with the task and in `run.events()`.
   */
  progress(fraction: number, note?: string): void;
  /**
   * Writes a line for people who look at the task. Lines are sent at most once a second; the server keeps
   * the last 50, cut to 500 characters.
   */
  log(line: string): void;
  /** The lane of the task; empty for none. */
  readonly lane: string;
  /** How many units of rates the task was enqueued with. */
  readonly cost: number;
  /**
   * Says how many units of the rate the attempt really took, such as the tokens of a language model. The server
   * corrects the rate of the lane by the difference to `cost` when the attempt ends. The last call counts.
   */
  used(units: number): void;
}

/**
 * Wraps the handlers of a worker. `next` runs the rest and gives its output, which the middleware
 * returns, or another one; what it throws counts as if the handler had thrown it.
 *
 * ```ts
 * const timing: Middleware = async (ctx, next) => {
 *   const startedMs = performance.now();
 *   try {
 *     return await next();
 *   } finally {
 *     console.log(`${ctx.task} took ${performance.now() - startedMs} ms`);
 *   }
 * };
 * ```
 */
export type Middleware = (ctx: TaskContext, next: () => Promise<unknown>) => Promise<unknown>;
