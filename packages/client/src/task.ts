/**
 * What producers and workers share: the name of a task, the shape of its input and output, and how it
 * is to be treated. The types flow from here to `enqueue`, to handlers and to results.
 */
import { limits } from "@codeq/protocol";
import { checkOptions, type OptionNames } from "./check-options.ts";
import { CodeqError } from "./codeq-error.ts";
import { type Duration, toMs } from "./duration.ts";
import type { Codec } from "./payload/codec.ts";
import type { SchemaInput, SchemaOutput, StandardSchema } from "./payload/standard-schema.ts";
import type { EnqueueArguments, EnqueueOptions } from "./producer/enqueue-options.ts";
import type { ResultOptions, Run } from "./producer/run.ts";
import { runMany } from "./worker/gathering.ts";
import type { TaskContext } from "./worker/task-context.ts";

/** How often a task is tried, and how soon again. */
export interface RetryOptions {
  /** Attempts before the task becomes a dead letter; the server's default is 5. */
  readonly maxAttempts?: number | undefined;
  /**
   * The pause before another try, to the millisecond. Without it the server's backoff policy decides. `attempt` is
   * 1 for the first attempt.
   */
  readonly delay?: Duration | ((attempt: number, error: unknown) => Duration) | undefined;
}

/** One task at a time for a key. */
export interface UniqueOptions<Input = unknown> {
  /** The key, or how to get it from the input; 1 to 200 characters. It belongs to the queue of the task. */
  readonly key: string | ((input: Input) => string);
  /** Until when a task holds its key. Default: `"unfinished"`; `"waiting"` is until a worker begins it. */
  readonly while?: "unfinished" | "waiting" | undefined;
  /**
   * What `enqueue` does when there is a task with the key. `return` (default) gives that task. `refuse` throws with the
   * code `unique_key_held`. `replace` and `latest` give the waiting task the new input; while the task runs, one more
   * waits for its end. `cancel` also cancels the task that runs.
   */
  readonly on?: "return" | "refuse" | "replace" | "latest" | "cancel" | undefined;
  /** How long the key is held at least, from the creation of the task. */
  readonly for?: Duration | undefined;
  /** How long later calls may put off a waiting task. */
  readonly maxWait?: Duration | undefined;
}

/** How a task is to be treated, by the server and by workers. */
export interface TaskSettings<Input = unknown> {
  /** One task at a time for a key, such as `{ key: (i) => i.account, on: "latest" }`. */
  readonly unique?: UniqueOptions<Input> | undefined;
  /**
   * What limits, rates and fair shares of the queue apply to, such as `(i) => i.customer`; at most 200 bytes. Tasks of a
   * lane and priority are claimed in their order.
   */
  readonly lane?: string | ((input: Input) => string) | undefined;
  /** How many units of rates and fair shares a task takes, such as `(i) => i.pages`. Default: 1. */
  readonly cost?: number | ((input: Input) => number) | undefined;
  /** The number of attempts and the delay between them. Default: the policy of the server. */
  readonly retry?: RetryOptions | undefined;
  /**
   * How long a worker may be silent before another worker gets the task. Default: `"60s"`.
   * Workers extend it by themselves, so it need not be as long as the work takes.
   */
  readonly lease?: Duration | undefined;
  /** How long one run of the handler may take. Default: no limit. */
  readonly timeout?: Duration | undefined;
  /** 0 to 9, higher first. Default: 0. */
  readonly priority?: number | undefined;
  /** Encrypts input and output, such as `aesGcm({ keys })`. Producers and workers need the same. Default: none. */
  readonly codec?: Codec | undefined;
}

/** What a task is made of, with everything filled in. */
export interface TaskDefinition {
  readonly name: string;
  readonly input: StandardSchema | undefined;
  readonly output: StandardSchema | undefined;
  readonly maxAttempts: number | undefined;
  readonly retryDelay: RetryOptions["delay"];
  readonly leaseMs: number;
  readonly timeoutMs: number | undefined;
  readonly priority: number;
  readonly unique: UniqueOptions | undefined;
  readonly lane: string | ((input: unknown) => string) | undefined;
  readonly cost: number | ((input: unknown) => number) | undefined;
  readonly codec: Codec | undefined;
}

/** The function that does the work. What it returns is the output; what it throws is an attempt that failed. */
export type HandlerFunction<Parsed, Returned> = (
  input: Parsed,
  ctx: TaskContext,
) => Returned | Promise<Returned>;

/** How many tasks a call of a `handleMany` gets. */
export interface ManyOptions {
  /** Most tasks of one call: 1 to 10,000. */
  readonly max: number;
  /** How long the first task waits for others, as a part of its `timeout`. Default: `"100ms"`. */
  readonly wait?: Duration | undefined;
}

/** One of several tasks that a handler gets together. */
export interface TaskOfMany<Parsed> {
  readonly input: Parsed;
  readonly ctx: TaskContext;
}

/**
 * What a handler of many tasks returns: for each task, in the order in which it got them, the output, or the error that
 * the attempt failed with. Nothing completes all tasks without an output.
 */
export type ManyOutcomes<Returned> =
  | readonly (Returned | Error)[]
  // biome-ignore lint/suspicious/noConfusingVoidType: a function without a return gives void.
  | (undefined extends Returned ? void : never);

/** The function that does the work of several tasks. What it throws is the error of all of them. */
export type ManyFunction<Parsed, Returned> = (
  tasks: readonly TaskOfMany<Parsed>[],
) => ManyOutcomes<Returned> | Promise<ManyOutcomes<Returned>>;

/** A handler of many tasks as workers see it. */
export interface ManyHandler {
  readonly name: string;
  readonly max: number;
  readonly waitMs: number;
  readonly run: ManyFunction<unknown, unknown>;
}

/** A task together with its handler; made by `task.handle` and `task.handleMany`. */
export interface Handler<Parsed = unknown, Returned = unknown> {
  readonly definition: TaskDefinition;
  /** @internal Set when the handler gets several tasks at a time. */
  readonly many?: ManyHandler | undefined;
  /**
   * Calls the function that `task.handle` was given, as a worker does. A test gives it the `fakeContext` of
   * `@codeq/client/testing`.
   *
   * ```ts
   * assert.deepEqual(await greeter.call({ name: "Ada" }, fakeContext()), { text: "hello Ada" });
   * ```
   */
  call(input: Parsed, ctx: TaskContext): Promise<Returned>;
}

/** As much of a task as a producer has to know. */
export interface TaskType<Input, Output> {
  readonly name: string;
  readonly definition: TaskDefinition;
  /** Carries the types; never there. */
  readonly "~types"?: { readonly input: Input; readonly output: Output };
}

/**
 * A task: `Input` is what producers pass and `Output` what results give; `Parsed` is what handlers get
 * (the input as its schema gives it back) and `Returned` what they return (the output as its schema
 * accepts it).
 */
export interface Task<Input, Output, Parsed = Input, Returned = Output>
  extends TaskType<Input, Output> {
  /**
   * Says what does this task; give it to `client.worker`.
   *
   * ```ts
   * const handler = resize.handle(async ({ image, width }, ctx) => {
   *   const url = await scale(image, width, { signal: ctx.signal });
   *   return { url };
   * });
   * ```
   */
  handle(run: HandlerFunction<Parsed, Returned>): Handler<Parsed, Returned>;
  /**
   * The same for several tasks at a time: the function is called when there are `max` tasks, or when the first has
   * waited for `wait`. Each task has an outcome of its own.
   *
   * ```ts
   * const handler = saveRow.handleMany({ max: 100, wait: "200ms" }, async (tasks) => {
   *   const rows = await database.insert(tasks.map(({ input }) => input));
   *   return rows.map((row) => row.error ?? { id: row.id });
   * });
   * ```
   */
  handleMany(options: ManyOptions, run: ManyFunction<Parsed, Returned>): Handler<Parsed, Returned>;
  /**
   * `client.enqueue` with the client of this process: the one of `useClient`, otherwise one for the server that
   * the environment names (`CODEQ_URL`, `CODEQ_TOKEN`). Resolves when the task is stored.
   *
   * ```ts
   * const run = await greet.enqueue({ name: "Ada" }, { delay: "10s" });
   * ```
   */
  enqueue(...args: EnqueueArguments<Input>): Promise<Run<Output>>;
  /**
   * Enqueues a task, waits until it has ended and gives its output. Rejects like `run.result()`.
   *
   * ```ts
   * const { text } = await greet.run({ name: "Ada" }, { timeout: "30s" });
   * ```
   */
  run(...args: RunArguments<Input>): Promise<Output>;
}

/**
 * The options of `task.run`: those of a task, and how long to wait. `timeout` is for storing the task (default:
 * `"30s"`) and then for its result (default: no limit).
 */
export interface RunOptions extends EnqueueOptions, ResultOptions {}

/** What `task.run` takes; a task without input needs nothing. */
export type RunArguments<Input> = undefined extends Input
  ? [input?: Input, options?: RunOptions]
  : [input: Input, options?: RunOptions];

/** As much of a client as a task needs to enqueue itself. */
export interface TaskClient {
  enqueue<Input, Output>(
    task: TaskType<Input, Output>,
    ...args: EnqueueArguments<NoInfer<Input>>
  ): Promise<Run<Output>>;
}

interface NoSchemas {
  readonly input?: undefined;
  readonly output?: undefined;
}

interface Schemas {
  readonly input?: StandardSchema | undefined;
  readonly output?: StandardSchema | undefined;
}

/** Makes tasks; the type of `task`. */
export interface DefineTask {
  <In extends StandardSchema, Out extends StandardSchema>(
    name: string,
    options: TaskSettings<SchemaOutput<In>> & { readonly input: In; readonly output: Out },
  ): Task<SchemaInput<In>, SchemaOutput<Out>, SchemaOutput<In>, SchemaInput<Out>>;
  <In extends StandardSchema, Output = unknown>(
    name: string,
    options: TaskSettings<SchemaOutput<In>> & { readonly input: In; readonly output?: undefined },
  ): Task<SchemaInput<In>, Output, SchemaOutput<In>>;
  <Out extends StandardSchema, Input = unknown>(
    name: string,
    options: TaskSettings<Input> & { readonly input?: undefined; readonly output: Out },
  ): Task<Input, SchemaOutput<Out>, Input, SchemaInput<Out>>;
  <Input = unknown, Output = unknown>(
    name: string,
    options?: TaskSettings<Input> & NoSchemas,
  ): Task<Input, Output>;
}

/** Tasks that enqueue themselves with this client. It is asked for when the first one does. */
function tasksOf(client: () => TaskClient): DefineTask {
  return (name: string, options: TaskSettings<never> & Schemas = {}): Task<unknown, unknown> => {
    const definition = toDefinition(name, options);
    const enqueue: Task<unknown, unknown>["enqueue"] = (...args) => client().enqueue(made, ...args);
    const made: Task<unknown, unknown> = {
      name,
      definition,
      handle: (run) => ({ definition, call: callOf(run) }),
      handleMany: (given, run) => handlerOfMany(definition, given, run),
      enqueue,
      run: async (input, options = {}) => (await enqueue(input, options)).result(options),
    };
    return made;
  };
}

/** The client of this process, or of this isolate, and tasks that use it; it is opened when it is first needed. */
export function ownClient<C extends TaskClient>(
  open: () => C,
): { readonly task: DefineTask; readonly use: (client: C) => Disposable } {
  let own: C | undefined;
  return {
    task: tasksOf(() => {
      own ??= open();
      return own;
    }),
    use: (client) => {
      const before = own;
      own = client;
      return {
        [Symbol.dispose]: () => {
          own = before;
        },
      };
    },
  };
}

function callOf(run: HandlerFunction<unknown, unknown>): Handler["call"] {
  if (typeof run === "function") return async (input, ctx) => run(input, ctx);
  throw new CodeqError("invalid_option", "a worker takes handlers: give task.handle a function");
}

const manyMax = 10_000;
const manyWaitDefault: Duration = "100ms";

function handlerOfMany(
  definition: TaskDefinition,
  { max, wait = manyWaitDefault }: ManyOptions,
  run: ManyFunction<unknown, unknown>,
): Handler {
  const { name, timeoutMs = Number.POSITIVE_INFINITY } = definition;
  if (typeof run !== "function") {
    throw new CodeqError("invalid_option", "give task.handleMany its options and a function");
  }
  if (!Number.isInteger(max) || max < 1 || max > manyMax) {
    const text = `invalid max ${max} of handleMany: a whole number from 1 to ${manyMax}`;
    throw new CodeqError("invalid_option", text);
  }
  const waitMs = toMs(wait, "wait");
  if (waitMs >= timeoutMs) {
    const text = `invalid wait ${JSON.stringify(wait)} of handleMany: less than the timeout of ${name}`;
    throw new CodeqError("invalid_option", text);
  }
  const many: ManyHandler = { name, max, waitMs, run };
  const call: Handler["call"] = async (input, ctx) => {
    const [outcome] = await runMany(many, [{ input, ctx }]);
    if (outcome instanceof Error) throw outcome;
    return outcome;
  };
  return { definition, call, many };
}

const leaseDefault: Duration = "60s";

const settingNames: OptionNames<TaskSettings & Schemas> = {
  input: true,
  output: true,
  unique: true,
  lane: true,
  cost: true,
  codec: true,
  retry: true,
  lease: true,
  timeout: true,
  priority: true,
};
const retryNames: OptionNames<RetryOptions> = { maxAttempts: true, delay: true };

function toDefinition(name: string, options: TaskSettings<never> & Schemas): TaskDefinition {
  if (!limits.commandPattern.test(name)) {
    const rule = "a letter or digit, then up to 127 of letters, digits and _ . : -";
    throw new CodeqError("invalid_option", `invalid task name ${JSON.stringify(name)}: ${rule}`);
  }
  checkOptions(options, settingNames, ` of the task ${name}`);
  const { input, output, retry = {}, lease = leaseDefault, timeout, priority = 0 } = options;
  const leaseMs = toMs(lease, "lease");
  if (leaseMs < limits.leaseSecondsMin * 1000 || leaseMs > limits.leaseSecondsMax * 1000) {
    throw new CodeqError(
      "invalid_option",
      `invalid lease ${JSON.stringify(lease)}: from 1s to 24h`,
    );
  }
  checkPriority(priority);
  checkOptions(retry, retryNames, ` of retry of the task ${name}`);
  checkMaxAttempts(retry.maxAttempts);
  return {
    name,
    input,
    output,
    priority,
    leaseMs,
    maxAttempts: retry.maxAttempts,
    retryDelay: retry.delay,
    // The key gets the input that producers pass.
    unique: options.unique as UniqueOptions | undefined,
    lane: options.lane as TaskDefinition["lane"],
    cost: options.cost as TaskDefinition["cost"],
    codec: options.codec,
    timeoutMs: timeout === undefined ? undefined : toMs(timeout, "timeout"),
  };
}

export function checkPriority(priority: number): void {
  if (Number.isInteger(priority) && priority >= 0 && priority <= limits.priorityMax) return;
  throw new CodeqError(
    "invalid_option",
    `invalid priority ${priority}: a whole number from 0 to 9`,
  );
}

export function checkMaxAttempts(maxAttempts: number | undefined): void {
  if (maxAttempts === undefined) return;
  const max = limits.maxAttemptsMax;
  if (Number.isInteger(maxAttempts) && maxAttempts >= 1 && maxAttempts <= max) return;
  const text = `invalid maxAttempts ${maxAttempts}: a whole number from 1 to ${max}`;
  throw new CodeqError("invalid_option", text);
}

/** JavaScript has no compiler that refuses the name of a task in place of the task. */
export function definitionOf<Input>({ definition }: TaskType<Input, unknown>): TaskDefinition {
  if (definition !== undefined) return definition;
  throw new CodeqError("invalid_option", 'this is not a task; make one: task("resize")');
}
