/** The options and the events of a worker. */
import { limits } from "@codeq/protocol";
import { checkOptions, type OptionNames } from "../check-options.ts";
import { CodeqError } from "../codeq-error.ts";
import type { Duration } from "../duration.ts";
import type { Handler } from "../task.ts";
import type { Middleware, TaskContext } from "./task-context.ts";

/** How a worker works, and who hears of it. */
export interface WorkerOptions {
  /** How many tasks the worker runs at a time. Default: 10, or as many as its `handleMany` get together. */
  readonly concurrency?: number | undefined;
  /** Closes the worker when this many runs have ended and the server knows of them. Default: no limit. */
  readonly maxTasks?: number | undefined;
  /** Runs around every handler, the first outermost. */
  readonly middleware?: readonly Middleware[] | undefined;
  /** Events, for logs and metrics. A problem without a listener becomes a warning of the process. */
  readonly on?: WorkerListeners | undefined;
  /** The name of the worker; two workers need two names. Default: made from host and process. */
  readonly name?: string | undefined;
  /** How long the event loop may be blocked before there is a warning. Default: `"1s"`. */
  readonly lagWarning?: Duration | undefined;
  /**
   * Whether the worker closes when the process gets SIGTERM or SIGINT. Default: true. The process then ends when
   * nothing else keeps it alive, after five seconds at the latest; one with listeners of its own decides itself.
   */
  readonly signals?: boolean | undefined;
  /** How long running tasks get to finish when the worker closes, before `ctx.signal` is aborted. Default: that of the client. */
  readonly grace?: Duration | undefined;
  /**
   * Whether the server keeps a cut stack of errors, with their causes and the errors that they join, for the console and
   * `codeq get`. Default: true. Callers from whom payloads are hidden do not see stacks.
   */
  readonly stacks?: boolean | undefined;
  /** When it differs from that of the client. */
  readonly token?: string | (() => string | Promise<string>) | undefined;
}

const optionNames: OptionNames<WorkerOptions> = {
  concurrency: true,
  maxTasks: true,
  middleware: true,
  on: true,
  name: true,
  lagWarning: true,
  signals: true,
  grace: true,
  stacks: true,
  token: true,
};

/**
 * Functions that are called for events of a worker.
 *
 * ```ts
 * const on: WorkerListeners = {
 *   failed: (ctx, error) => console.error(ctx.id, ctx.attempt, error),
 *   connection: (problem) => console.log(problem?.message ?? "connected"),
 * };
 * ```
 */
export interface WorkerListeners {
  /** A task is done and its result is stored. */
  readonly completed?: ((ctx: TaskContext, output: unknown) => void) | undefined;
  /** A run of a handler failed; the server decides about a retry. */
  readonly failed?: ((ctx: TaskContext, error: unknown) => void) | undefined;
  /** The server refused the result of a task, so the run has no effect. */
  readonly refused?: ((error: CodeqError) => void) | undefined;
  /** A run has ended, and the server has answered what it made of that. */
  readonly settled?: ((ctx: TaskContext, as: Settled) => void) | undefined;
  /** The server does not want this worker: it has ended, and `done` rejects with this error. */
  readonly stopped?: ((error: CodeqError) => void) | undefined;
  /** `event_loop_lag`, `handler_stuck` and other things that work, but not well. */
  readonly warning?: ((warning: WorkerWarning) => void) | undefined;
  /** A handler called `ctx.progress`; the fraction is from 0 to 1. */
  readonly progress?:
    | ((ctx: TaskContext, fraction: number, note: string | undefined) => void)
    | undefined;
  /** The worker is connected, or the reason why not; called for every try. */
  readonly connection?: ((problem: CodeqError | undefined) => void) | undefined;
}

/**
 * How a run ended: the task is completed, failed, will be retried, is a dead letter, or was handed back
 * because the worker closed or lost its lease.
 */
export type Settled = "completed" | "failed" | "retry" | "dead_letter" | "handed_back";

/** A problem that does not stop the worker. */
export interface WorkerWarning {
  /** A blocked event loop, a handler that does not stop, or a fault that the server speaks of. */
  readonly code: "event_loop_lag" | "handler_stuck" | "server_error";
  /** What it is, and what to do about it. */
  readonly message: string;
}

/** How a worker is closed. */
export interface CloseOptions {
  /** Instead of the `grace` of the worker. */
  readonly grace?: Duration | undefined;
}

/** Made by `client.worker`. */
export interface Worker extends AsyncDisposable {
  /** Its name for the server. */
  readonly name: string;
  /** Tasks that it has and the server has not heard the end of. */
  readonly busy: number;
  /** Resolves when the worker is closed; rejects when the server does not want it. */
  readonly done: Promise<void>;
  /**
   * Stops asking for tasks, lets the running ones finish, and hands back those that have not finished
   * within the grace, without an attempt being counted. Rejects when the server cannot be reached.
   */
  close(options?: CloseOptions): Promise<void>;
}

const listenerNames: OptionNames<WorkerListeners> = {
  completed: true,
  failed: true,
  refused: true,
  settled: true,
  stopped: true,
  warning: true,
  progress: true,
  connection: true,
};

export function checkWorkerOptions(options: WorkerOptions): void {
  checkOptions(options, optionNames, " of a worker");
  checkOptions(options.on ?? {}, listenerNames, " in on of a worker");
}

const concurrencyDefault = 10;
const concurrencyMax = 10_000;

/** @internal Published types do not have the member `many`. */
export function checkConcurrency(
  given: number | undefined,
  handlers: readonly Pick<Handler, "definition" | "many">[],
): number {
  const together = handlers.reduce((sum, { many }) => sum + (many?.max ?? 0), 0);
  const concurrency = given ?? Math.min(concurrencyMax, Math.max(concurrencyDefault, together));
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > concurrencyMax) {
    const text = `invalid concurrency ${concurrency}: a whole number from 1 to ${concurrencyMax}`;
    throw new CodeqError("invalid_option", text);
  }
  const never = handlers.find(({ many }) => many !== undefined && many.max > concurrency);
  if (never === undefined) return concurrency;
  const { name } = never.definition;
  const text = `concurrency ${concurrency} is less than the max of ${name}, whose calls would never be full`;
  throw new CodeqError("invalid_option", `${text}; set it to ${never.many?.max} or more`);
}

export function checkMaxTasks(maxTasks: number = Number.POSITIVE_INFINITY): number {
  if (maxTasks >= 1 && (Number.isInteger(maxTasks) || maxTasks === Number.POSITIVE_INFINITY)) {
    return maxTasks;
  }
  throw new CodeqError("invalid_option", `invalid maxTasks ${maxTasks}: a whole number from 1`);
}

/** By the name of the queue, which ignores case. */
export function handlersByQueue(handlers: readonly Handler[]): ReadonlyMap<string, Handler> {
  const found = new Map<string, Handler>();
  for (const handler of handlers) {
    checkHandler(handler);
    const { name } = handler.definition;
    if (found.has(name.toLowerCase())) {
      throw new CodeqError("invalid_option", `the task ${name} has two handlers in one worker`);
    }
    found.set(name.toLowerCase(), handler);
  }
  const max = limits.commandsPerClaimMax;
  if (found.size === 0 || found.size > max) {
    throw new CodeqError(
      "invalid_option",
      `a worker needs 1 to ${max} handlers, not ${found.size}`,
    );
  }
  return found;
}

/** A task that nothing was said about would fail every time, and use up the attempts of real tasks. */
function checkHandler(handler: Handler): void {
  if (typeof handler?.call === "function" && handler.definition !== undefined) return;
  const text = "a worker takes handlers: give it task.handle(async (input, ctx) => ...)";
  throw new CodeqError("invalid_option", text);
}

export function checkName(name: string): string {
  if (name.trim() !== "" && name.length <= limits.workerIdCharsMax) return name;
  const max = limits.workerIdCharsMax;
  throw new CodeqError("invalid_option", `invalid name of a worker: 1 to ${max} characters`);
}
