/**
 * Runs the tasks of a `handleMany` together. Each task has an attempt, a lease and an outcome of its own; only the
 * call of the function is shared.
 *
 *   gathered   runs when there are `max`, when the first has waited for `wait`, or when the worker closes; leaves
 *              when its signal aborts
 *   running    ends with the outcome that the function gives for it
 */
import type { Clock } from "../clock.ts";
import { CodeqError } from "../codeq-error.ts";
import type { Handler, ManyHandler, TaskOfMany } from "../task.ts";
import type { TaskContext } from "./task-context.ts";

interface Gathered extends TaskOfMany<unknown> {
  readonly ended: PromiseWithResolvers<unknown>;
}

export class Gathering {
  /** What the worker calls for each task. */
  readonly handler: Handler;
  readonly #many: ManyHandler;
  readonly #clock: Clock;
  #gathered: Gathered[] = [];
  #cancelWait = (): void => {};
  #isClosing = false;

  constructor(handler: Handler, many: ManyHandler, clock: Clock) {
    this.#many = many;
    this.#clock = clock;
    this.handler = { ...handler, call: (input, ctx) => this.#add(input, ctx) };
  }

  /** The tasks that are here do not wait for more. */
  close(): void {
    this.#isClosing = true;
    this.#run();
  }

  async #add(input: unknown, ctx: TaskContext): Promise<unknown> {
    ctx.signal.throwIfAborted();
    const task: Gathered = { input, ctx, ended: Promise.withResolvers() };
    const onAbort = (): void => this.#leave(task);
    ctx.signal.addEventListener("abort", onAbort);
    this.#gathered.push(task);
    const { max, waitMs } = this.#many;
    if (this.#gathered.length >= max || this.#isClosing) this.#run();
    else if (this.#gathered.length === 1) {
      this.#cancelWait = this.#clock.after(waitMs, () => this.#run());
    }
    try {
      return await task.ended.promise;
    } finally {
      ctx.signal.removeEventListener("abort", onAbort);
    }
  }

  #leave(task: Gathered): void {
    const at = this.#gathered.indexOf(task);
    // The function has it, and sees the signal.
    if (at < 0) return;
    this.#gathered.splice(at, 1);
    if (this.#gathered.length === 0) this.#cancelWait();
    task.ended.reject(task.ctx.signal.reason);
  }

  #run(): void {
    this.#cancelWait();
    const tasks = this.#gathered;
    this.#gathered = [];
    if (tasks.length === 0) return;
    const given = tasks.map(({ input, ctx }) => ({ input, ctx }));
    runMany(this.#many, given).then(
      (outcomes) => {
        for (const [at, { ended }] of tasks.entries()) {
          const outcome = outcomes[at];
          if (outcome instanceof Error) ended.reject(outcome);
          else ended.resolve(outcome);
        }
      },
      (error: unknown) => {
        for (const { ended } of tasks) ended.reject(error);
      },
    );
  }
}

/** One outcome for each task. */
export async function runMany(
  { name, run }: ManyHandler,
  tasks: readonly TaskOfMany<unknown>[],
): Promise<readonly unknown[]> {
  const outcomes: unknown = await run(tasks);
  if (outcomes === undefined) return tasks.map(() => undefined);
  if (Array.isArray(outcomes) && outcomes.length === tasks.length) return outcomes;
  const what = Array.isArray(outcomes) ? `${outcomes.length} outcomes` : typeof outcomes;
  const text = `the function of ${name} got ${tasks.length} tasks and returned ${what}`;
  throw new CodeqError("invalid_output", `${text}; return an output or an error for each task`);
}
