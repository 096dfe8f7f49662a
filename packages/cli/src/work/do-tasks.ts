/**
 * Runs tasks with the worker of the client library until it is stopped or has done enough. The library
 * handles leases, connections and hand-backs; this file reports the start of every run, and its end once the
 * server has answered.
 */
import {
  type Client,
  type CodeqError,
  JsonText,
  Permanent,
  type Settled,
  type TaskContext,
  task,
} from "@codeq/client";
import type { Clock } from "@codeq/server/command-line";

export type WorkEvent =
  | { readonly event: "claimed"; readonly task: TaskContext }
  | {
      readonly event: "ended";
      readonly task: TaskContext;
      readonly as: string;
      readonly tookMs: number;
      /** Why, where something went wrong. */
      readonly why: string | undefined;
    }
  | { readonly event: "lost"; readonly task: TaskContext; readonly why: string }
  | { readonly event: "trouble"; readonly why: string }
  | { readonly event: "connected" }
  /** The worker stops, and waits for running tasks. */
  | { readonly event: "stopping"; readonly running: number };

export interface WorkOptions {
  readonly client: Client;
  readonly commands: readonly string[];
  readonly run: RunTask;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly graceMs: number;
  /** How many tasks to do at most; undefined for no limit. */
  readonly tasksMax: number | undefined;
  readonly stopped: AbortSignal;
  readonly report: (event: WorkEvent) => void;
}

export interface WorkSummary {
  readonly completed: number;
  readonly others: number;
}

/** In the words of the HTTP API. */
const words: Readonly<Record<Settled, string>> = {
  completed: "completed",
  failed: "failed",
  retry: "requeued",
  dead_letter: "dlq",
  handed_back: "requeued",
};

/**
 * Resolves when everything is done or handed back. Rejects when the server refuses the worker, or did
 * not get the end of a task.
 */
export async function doTasks(options: WorkOptions): Promise<WorkSummary> {
  const { client, commands, concurrency, leaseMs, graceMs, tasksMax, stopped, report } = options;
  const runs = new Runs(options);
  const connection = new ConnectionReports(report);
  const names = new Map(commands.map((name) => [name.toLowerCase(), name]));
  const worker = client.worker(
    [...names.values()].map((name) => task(name, { lease: leaseMs }).handle(() => undefined)),
    {
      concurrency,
      maxTasks: tasksMax,
      // The command says what it does on a signal.
      signals: false,
      // A handler gets its payload parsed; what is in front of it also runs for text that is not JSON.
      middleware: [(ctx) => runs.run(ctx)],
      on: {
        settled: (ctx, as) => runs.settled(ctx, as),
        refused: (error) => runs.refused(error),
        // The end of the run and `done` report these.
        failed: () => {},
        stopped: () => {},
        connection: (problem) => connection.changed(problem),
        warning: ({ message }) => report({ event: "trouble", why: message }),
      },
    },
  );
  let closing = Promise.resolve();
  const onStop = (): void => {
    if (worker.busy > 0) report({ event: "stopping", running: worker.busy });
    closing = worker.close({ grace: graceMs });
    // Checked below, when the worker has ended.
    closing.catch(() => {});
  };
  stopped.addEventListener("abort", onStop);
  if (stopped.aborted) onStop();
  try {
    await worker.done;
    await closing;
  } finally {
    stopped.removeEventListener("abort", onStop);
  }
  return { completed: runs.completed, others: runs.begun - runs.completed };
}

/** Reports every problem once, and when it is over. */
class ConnectionReports {
  readonly #report: WorkOptions["report"];
  #problem: string | undefined;

  constructor(report: WorkOptions["report"]) {
    this.#report = report;
  }

  changed(problem: CodeqError | undefined): void {
    const before = this.#problem;
    this.#problem = problem?.message;
    if (problem === undefined) {
      if (before !== undefined) this.#report({ event: "connected" });
    } else if (before !== problem.message) {
      const next = problem.retryable ? "; trying again" : "";
      this.#report({ event: "trouble", why: problem.message + next });
    }
  }
}

interface EndedRun {
  readonly ctx: TaskContext;
  readonly tookMs: number;
  readonly why: string | undefined;
}

class Runs {
  readonly #options: WorkOptions;
  /** Ended, and not answered by the server. */
  readonly #ended = new Map<string, EndedRun>();
  begun = 0;
  completed = 0;

  constructor(options: WorkOptions) {
    this.#options = options;
  }

  /** Ends as the client wants it: with an output, or by throwing. */
  async run(ctx: TaskContext): Promise<JsonText> {
    const { clock, report } = this.#options;
    this.begun += 1;
    report({ event: "claimed", task: ctx });
    const startedMs = clock.monotonicMs();
    const end = await this.#runToEnd(ctx);
    if (end.as !== "completed" && isLost(ctx.signal)) {
      const why = "the lease was lost; another worker may have the task";
      report({ event: "lost", task: ctx, why });
    } else {
      this.#ended.set(ctx.id, { ctx, tookMs: clock.monotonicMs() - startedMs, why: whyOf(end) });
    }
    if (end.as === "completed") return new JsonText(end.result);
    if (end.as === "failed") throw new Permanent(end.error || "failed");
    // No error is thrown, because the name of its class would become part of the reason.
    return Promise.reject(end.reason);
  }

  settled(ctx: TaskContext, as: Settled): void {
    if (as === "completed") this.completed += 1;
    const run = this.#take(ctx.id);
    if (run === undefined) return;
    const { tookMs } = run;
    // What was cut short has not failed.
    const why = as === "handed_back" ? undefined : run.why;
    this.#options.report({ event: "ended", task: ctx, as: words[as], tookMs, why });
  }

  refused({ taskId = "", code, message }: CodeqError): void {
    const run = this.#take(taskId);
    if (run === undefined) return;
    const why = `the server refused the result: ${message} (${code})`;
    this.#options.report({ event: "lost", task: run.ctx, why });
  }

  async #runToEnd(ctx: TaskContext): Promise<RunEnd> {
    try {
      return await this.#options.run(ctx);
    } catch (error) {
      return { as: "retry", reason: (error as Error).message };
    }
  }

  #take(id: string): EndedRun | undefined {
    const run = this.#ended.get(id);
    this.#ended.delete(id);
    return run;
  }
}

function isLost(signal: AbortSignal): boolean {
  return signal.aborted && (signal.reason as CodeqError).code === "lease_lost";
}

function whyOf(end: RunEnd): string | undefined {
  if (end.as === "completed") return undefined;
  return end.as === "failed" ? end.error : end.reason;
}

/** As much of a task as its runner needs. */
export type RunnableTask = Pick<
  TaskContext,
  "id" | "task" | "payloadText" | "attempt" | "maxAttempts" | "signal"
>;

/** How a run ended. */
export type RunEnd =
  /** `result` is the text of a JSON object. */
  | { readonly as: "completed"; readonly result: string }
  /** The server does not retry the task. */
  | { readonly as: "failed"; readonly error: string }
  | { readonly as: "retry"; readonly reason: string };

export type RunTask = (task: RunnableTask) => Promise<RunEnd>;
