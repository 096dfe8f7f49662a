/**
 * Does tasks, several at a time, until it is told to stop.
 *
 * A slot is in one of three states: it waits for a task, runs one, or tells how one ended. While a task
 * runs its lease is extended at every third of it; when the lease is lost the run is stopped and
 * nothing is told. A request to stop ends the waiting at once; what runs may finish within the
 * grace and is then stopped and handed back without costing an attempt. What the server did not hear
 * is told again until the lease would be over.
 */
import type { Clock } from "@codeq/server/tooling";
import { CliError } from "../cli-error.ts";
import { pause } from "../pause.ts";
import { isLostLease } from "./http-task-source.ts";
import type { ClaimedTask, TaskEnd, TaskSource } from "./task-source.ts";

/** Runs one task. The signal aborts when the run counts for nothing any more. */
export type RunTask = (task: ClaimedTask, signal: AbortSignal) => Promise<TaskEnd>;

export type WorkEvent =
  | { readonly event: "claimed"; readonly task: ClaimedTask }
  | {
      readonly event: "ended";
      readonly task: ClaimedTask;
      readonly as: string;
      readonly tookMs: number;
      /** Why, where something went wrong. */
      readonly why: string | undefined;
    }
  | { readonly event: "lost"; readonly task: ClaimedTask; readonly why: string }
  | { readonly event: "trouble"; readonly why: string };

export interface WorkOptions {
  readonly source: TaskSource;
  readonly run: RunTask;
  readonly clock: Clock;
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly graceMs: number;
  /** How many tasks to do at most. */
  readonly tasksMax: number;
  readonly stopped: AbortSignal;
  readonly tell: (event: WorkEvent) => void;
}

const troubleMs = 1000;

export interface WorkSummary {
  readonly completed: number;
  readonly others: number;
}

/** Resolves when everything is done or handed back. Throws when the server will never give it tasks. */
export async function doTasks(options: WorkOptions): Promise<WorkSummary> {
  const loop = new WorkLoop(options);
  const slots = Array.from({ length: options.concurrency }, () => loop.slot());
  await Promise.all(slots);
  loop.close();
  return { completed: loop.completed, others: loop.others };
}

class WorkLoop {
  readonly #options: WorkOptions;
  /** Ends the waiting: on a stop, and when a slot has failed for good. */
  readonly #enough = new AbortController();
  /** Ends the running, when the grace is over. */
  readonly #over = new AbortController();
  readonly #undo: () => void;
  #begun = 0;
  completed = 0;
  others = 0;

  constructor(options: WorkOptions) {
    this.#options = options;
    const { stopped, clock, graceMs } = options;
    let cancel = (): void => {};
    const onStop = (): void => {
      this.#enough.abort();
      cancel = clock.after(graceMs, () => this.#over.abort());
    };
    stopped.addEventListener("abort", onStop);
    if (stopped.aborted) onStop();
    this.#undo = () => {
      cancel();
      stopped.removeEventListener("abort", onStop);
    };
  }

  close(): void {
    this.#undo();
  }

  async slot(): Promise<void> {
    const { tasksMax } = this.#options;
    const enough = this.#enough.signal;
    while (!enough.aborted && this.#begun < tasksMax) {
      // Counted before it is there, so that two slots do not both wait for the last one.
      this.#begun += 1;
      const task = await this.#claim();
      if (task === undefined) this.#begun -= 1;
      else await this.#doTask(task);
    }
  }

  async #claim(): Promise<ClaimedTask | undefined> {
    const { source, tell, clock } = this.#options;
    const enough = this.#enough.signal;
    try {
      return await source.claim(enough);
    } catch (error) {
      if (enough.aborted) return undefined;
      if (!isPassing(error)) {
        this.#enough.abort();
        throw error;
      }
      tell({ event: "trouble", why: (error as Error).message });
      await pause(clock, troubleMs, enough);
      return undefined;
    }
  }

  async #doTask(task: ClaimedTask): Promise<void> {
    const { tell, clock } = this.#options;
    tell({ event: "claimed", task });
    const startedMs = clock.monotonicMs();
    const lease = this.#keep(task);
    const signal = AbortSignal.any([lease.lost, this.#over.signal]);
    let end = await this.#run(task, signal);
    lease.stop();
    if (lease.lost.aborted) {
      this.others += 1;
      tell({ event: "lost", task, why: "the lease is lost; another worker may have the task" });
      return;
    }
    // What was cut short has not failed.
    if (this.#over.signal.aborted && end.as !== "completed") end = { as: "handed back" };
    await this.#finish(task, end, clock.monotonicMs() - startedMs);
  }

  async #run(task: ClaimedTask, signal: AbortSignal): Promise<TaskEnd> {
    try {
      return await this.#options.run(task, signal);
    } catch (error) {
      return { as: "retry", reason: (error as Error).message };
    }
  }

  /** Extends the lease until it is told to stop. */
  #keep(task: ClaimedTask): { readonly lost: AbortSignal; stop(): void } {
    const { clock, leaseMs, source } = this.#options;
    const lost = new AbortController();
    let cancel = (): void => {};
    let extendedMs = clock.monotonicMs();
    const extend = async (): Promise<void> => {
      try {
        if (!(await source.extend(task))) lost.abort();
        else extendedMs = clock.monotonicMs();
      } catch {
        // The server may be back before the lease is over.
        if (clock.monotonicMs() - extendedMs >= leaseMs) lost.abort();
      }
    };
    let isOver = false;
    const next = (): void => {
      if (isOver || lost.signal.aborted) return;
      cancel = clock.after(leaseMs / 3, () => void extend().then(next));
    };
    next();
    return {
      lost: lost.signal,
      stop: () => {
        isOver = true;
        cancel();
      },
    };
  }

  async #finish(task: ClaimedTask, end: TaskEnd, tookMs: number): Promise<void> {
    const { source, tell, clock, leaseMs } = this.#options;
    const endsMs = clock.monotonicMs() + leaseMs;
    for (;;) {
      try {
        const as = await source.finish(task, end);
        if (end.as === "completed") this.completed += 1;
        else this.others += 1;
        tell({ event: "ended", task, as, tookMs, why: whyOf(end) });
        return;
      } catch (error) {
        const why = (error as Error).message;
        const isLate = clock.monotonicMs() >= endsMs || this.#over.signal.aborted;
        if (isLostLease(error) || !isPassing(error) || isLate) {
          this.others += 1;
          tell({ event: "lost", task, why });
          return;
        }
        tell({ event: "trouble", why });
        await pause(clock, troubleMs, this.#over.signal);
      }
    }
  }
}

function whyOf(end: TaskEnd): string | undefined {
  if (end.as === "failed") return end.error;
  return end.as === "retry" ? end.reason : undefined;
}

/** Something that may be different in a moment. */
function isPassing(error: unknown): boolean {
  if (!(error instanceof CliError)) return false;
  return error.exit === "unreachable" || error.status === 429 || (error.status ?? 0) >= 500;
}
