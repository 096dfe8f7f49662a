/**
 * Reports the events of a worker to its listeners. What goes wrong and has no listener becomes a
 * warning of the process, so that nothing passes unnoticed. A listener that throws does no harm.
 */
import { type CodeqError, messageOf } from "../codeq-error.ts";
import { inWords } from "../duration.ts";
import type { Runtime } from "../runtime.ts";
import type { Attempt } from "./attempt.ts";
import type { Settlement } from "./outbox.ts";
import { reportOf } from "./outcome.ts";
import type { AttemptEnd } from "./run-attempt.ts";
import type { TaskContext } from "./task-context.ts";
import type { Settled, WorkerListeners, WorkerWarning } from "./worker-options.ts";

/** A restart of the server causes fewer failures in a row. */
const failuresBeforeWarning = 3;

const settledAs: Readonly<Record<Settlement["outcome"]["kind"], Settled>> = {
  completed: "completed",
  failed: "failed",
  retry: "retry",
  hand_back: "handed_back",
};

export class Reports {
  readonly #on: WorkerListeners;
  readonly #warn: Runtime["warn"];
  /** Since the worker was connected. */
  #failures = 0;

  constructor(on: WorkerListeners, warn: Runtime["warn"]) {
    this.#on = on;
    this.#warn = warn;
  }

  /** A handler has ended. */
  ended(attempt: Attempt, ended: AttemptEnd): void {
    const { ctx, outcome, error } = ended;
    const isCompleted = outcome.kind === "completed";
    if (this.#on.settled !== undefined || (isCompleted && this.#on.completed !== undefined)) {
      attempt.ended = ended;
    }
    if (isCompleted || outcome.kind === "hand_back") return;
    if (this.#emit(this.#on.failed, ctx, error)) return;
    const next =
      outcome.kind === "failed" ? "the task is not retried" : "the server decides about a retry";
    const what = `task ${ctx.id} (${ctx.task}) failed in attempt ${ctx.attempt}; ${next}`;
    this.#warn("CODEQ_TASK_FAILED", `${what}: ${reportOf(error)}`);
  }

  /** The server has given its final answer. */
  settled(attempt: Attempt, { outcome, refused, isDead }: Settlement): void {
    const { ended } = attempt;
    if (refused === undefined) {
      if (ended === undefined) return;
      const as = isDead ? "dead_letter" : settledAs[outcome.kind];
      if (as === "completed") this.#emit(this.#on.completed, ended.ctx, ended.output);
      this.#emit(this.#on.settled, ended.ctx, as);
      return;
    }
    // A task that was handed back because its lease was lost is not ours to speak of.
    if (outcome.kind === "hand_back") return;
    if (this.#emit(this.#on.refused, refused)) return;
    const what = `the server refused the result of task ${attempt.id} (${refused.code})`;
    this.#warn("CODEQ_REFUSED", `${what}: ${refused.message}`);
  }

  lag(lagMs: number): void {
    const block = `the event loop was blocked for ${lagMs} ms`;
    const fix = "move long computations to a worker thread, or give the task a longer lease";
    this.#warning({ code: "event_loop_lag", message: `${block}; leases may be lost: ${fix}` });
  }

  stuck(attempt: Attempt, stopMs: number): void {
    const name = attempt.handler.definition.name;
    const what = `the handler of ${name} did not end ${inWords(stopMs)} after ctx.signal was aborted`;
    const fix = "its task was given back while it goes on; pass ctx.signal to what it waits for";
    this.#warning({ code: "handler_stuck", message: `${what}: ${fix}` });
  }

  serverError(error: CodeqError): void {
    this.#warning({ code: "server_error", message: `${error.message} (${error.code})` });
  }

  /** Without a listener a problem is reported once for as long as it lasts. */
  connection(problem: CodeqError | undefined): void {
    this.#failures = problem === undefined ? 0 : this.#failures + 1;
    if (this.#emit(this.#on.connection, problem) || problem === undefined) return;
    if (this.#failures !== failuresBeforeWarning) return;
    this.#warn(
      "CODEQ_NOT_CONNECTED",
      `a worker has no connection and goes on trying: ${problem.message}`,
    );
  }

  /** The worker has ended because the server does not want it. */
  fatal(error: CodeqError): void {
    if (this.#emit(this.#on.stopped, error)) return;
    this.#warn("CODEQ_WORKER_FAILED", `the worker has stopped (${error.code}): ${error.message}`);
  }

  readonly progress = (ctx: TaskContext, fraction: number, note: string | undefined): void => {
    const within = Math.min(1, Math.max(0, Number.isNaN(fraction) ? 0 : fraction));
    this.#emit(this.#on.progress, ctx, within, note);
  };

  #warning(warning: WorkerWarning): void {
    if (this.#emit(this.#on.warning, warning)) return;
    this.#warn(`CODEQ_${warning.code.toUpperCase()}`, warning.message);
  }

  /** False when there is no listener. */
  #emit<Args extends readonly unknown[]>(
    listener: ((...args: Args) => void) | undefined,
    ...args: Args
  ): boolean {
    if (listener === undefined) return false;
    try {
      listener(...args);
    } catch (error) {
      this.#warn("CODEQ_LISTENER_FAILED", `a listener of a worker threw: ${messageOf(error)}`);
    }
    return true;
  }
}
