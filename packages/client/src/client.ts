/** The client: enqueues tasks, gives their results, and starts workers. */
import { hostname } from "node:os";
import { limits } from "@codeq/protocol";
import { textOf } from "@codeq/protocol/wire";
import { Admin } from "./admin/admin.ts";
import { type AskApi, call } from "./api-calls.ts";
import {
  type Batch,
  type BatchHandle,
  type BatchItems,
  type BatchOptions,
  batchOf,
  createBatch,
} from "./batches/batch.ts";
import { checkOptions, type OptionNames } from "./check-options.ts";
import { CodeqError } from "./codeq-error.ts";
import type { TokenSource } from "./connection/connection.ts";
import { serverIn, tokenSource } from "./connection/server-address.ts";
import { openTransports, type Transports } from "./connection/transports.ts";
import { type Duration, toMs } from "./duration.ts";
import type { TlsOptions } from "./grpc/http2-connection.ts";
import type { HttpRequest } from "./http/http-api.ts";
import { artifactsOf, uploadArtifact } from "./payload/artifact.ts";
import type { CreateFields, CreateOptions } from "./producer/creations.ts";
import {
  createFields,
  type EnqueueArguments,
  EnqueueManyError,
  type EnqueueOptions,
  type EnqueueOutcome,
  payloadOf,
} from "./producer/enqueue-options.ts";
import { Producer } from "./producer/producer.ts";
import { createRun, graceBody, type Run } from "./producer/run.ts";
import { type TaskUpdate, updatesIn } from "./producer/run-events.ts";
import { type Runtime, systemRuntime } from "./runtime.ts";
import { Schedules } from "./schedules/schedules.ts";
import { Subscriptions } from "./subscriptions/subscriptions.ts";
import {
  type DefineTask,
  definitionOf,
  type Handler,
  ownClient,
  type TaskDefinition,
  type TaskType,
} from "./task.ts";
import { passOn, type Tracing } from "./trace-context.ts";
import { Reports } from "./worker/reports.ts";
import { type WorkedOff, workUntilIdle } from "./worker/work-until-idle.ts";
import { TaskWorker } from "./worker/worker.ts";
import {
  checkConcurrency,
  checkMaxTasks,
  checkName,
  checkWorkerOptions,
  handlersByQueue,
  type Worker,
  type WorkerOptions,
} from "./worker/worker-options.ts";

/** Which server, who is asking, and how to talk to it. Everything has a value for `codeq dev`. */
export interface ClientOptions {
  /**
   * Address of the HTTP API. Default: the environment variable `CODEQ_URL` or `CODEQ_BASE_URL`, otherwise
   * `"http://127.0.0.1:8080"`. For a cluster, the addresses of its nodes (in the variable, separated by commas): when one
   * node does not answer, the client asks the next one.
   */
  readonly url?: string | readonly string[] | undefined;
  /** The token, or a function that returns it. Default: the environment variable `CODEQ_TOKEN`, otherwise `"dev-token"`. */
  readonly token?: string | (() => string | Promise<string>) | undefined;
  /**
   * How to talk to the server. `"auto"` uses the streams where they can be reached and HTTP where not.
   */
  readonly transport?: "auto" | "streams" | "http" | undefined;
  /** `host:port` of the streams, when it differs from what the server reports. */
  readonly streams?: string | undefined;
  /**
   * How long the running tasks of its workers get to finish when they close. Default: the environment variable
   * `CODEQ_GRACE`, otherwise `"10s"`.
   */
  readonly grace?: Duration | undefined;
  /** Certificates, of the CA of the server and of this client; in addition to what Node trusts. */
  readonly tls?: TlsOptions | undefined;
  /** Hooks for a tracing library; without any, trace contexts are passed on and no spans are made. */
  readonly tracing?: Tracing | undefined;
  /** Called for problems that concern no single call. Default: a process warning. */
  readonly onWarning?: ((error: CodeqError) => void) | undefined;
}

/** One of several tasks that are enqueued together. */
export interface EnqueueItem<Input> extends EnqueueOptions {
  /** What its handler gets. */
  readonly input: Input;
}

/** How a worker works that ends by itself. */
export interface UntilIdleOptions extends WorkerOptions {
  /** How long to work at most. Default: no limit. */
  readonly maxDuration?: Duration | undefined;
  /** How long to wait for another task. Default: `"1s"`. */
  readonly idle?: Duration | undefined;
}

const enqueueTimeoutMs = 30_000;
const idleDefault: Duration = "1s";
const closeTimeoutDefault: Duration = "10s";
const graceDefault: Duration = "10s";

const lagWarningDefault: Duration = "1s";
/** A server for development believes it; every other one looks at the token. */
const asAdmin = { "x-role": "ADMIN" };

/**
 * Opens a client. It connects when there is something to do, and again whenever the connection is lost.
 *
 * ```ts
 * await using client = codeq({ url: "http://127.0.0.1:8080", token: "dev-token" });
 * const run = await client.enqueue(resize, { image: "cat.png", width: 320 });
 * console.log(await run.result({ timeout: "30s" }));
 * ```
 */
export function codeq(options: ClientOptions = {}): Client {
  // biome-ignore lint/style/noProcessEnv: the only place where the library reads the environment.
  const whole = optionsIn(process.env, options);
  return new Client(whole, systemRuntime, openTransports(whole, systemRuntime));
}

const optionNames: OptionNames<ClientOptions> = {
  url: true,
  token: true,
  transport: true,
  streams: true,
  grace: true,
  tls: true,
  tracing: true,
  onWarning: true,
};

/** @internal The options, and from the environment what they leave out. A misspelt option is refused. */
export function optionsIn(
  env: Readonly<Record<string, string | undefined>>,
  options: ClientOptions,
): ClientOptions {
  checkOptions(options, optionNames, "");
  const found = serverIn(env, options);
  const grace = options.grace ?? ((env["CODEQ_GRACE"] || undefined) as Duration | undefined);
  return { ...options, ...found, grace };
}

/** Made by `codeq`. */
export class Client implements AsyncDisposable {
  readonly #runtime: Runtime;
  readonly #transports: Transports;
  readonly #token: TokenSource;
  readonly #tracing: Tracing;
  readonly #grace: Duration;
  readonly #producer: Producer;
  readonly #workers = new Set<Worker>();
  readonly #keyPrefix: string;
  readonly #api: AskApi;
  /** What administrators do: find tasks, replay dead letters and so on. */
  readonly admin: Admin;
  /** Tasks that come back: every morning, every five minutes. */
  readonly schedules: Schedules;
  /** Notifications about queues that have work, for workers that do not wait for tasks all the time. */
  readonly subscriptions: Subscriptions;
  /** Ends what has no end of its own. */
  readonly #closing = new AbortController();
  #lastKey = 0;

  /** @internal Use `codeq`. */
  constructor(options: ClientOptions, runtime: Runtime, transports: Transports) {
    this.#runtime = runtime;
    this.#transports = transports;
    this.#token = tokenSource(options.token ?? "dev-token");
    this.#tracing = options.tracing ?? passOn;
    this.#grace = options.grace ?? graceDefault;
    toMs(this.#grace, "grace");
    this.admin = new Admin(
      (request) => this.#ask({ ...request, headers: asAdmin }),
      (path) => this.#download(path, asAdmin),
    );
    this.schedules = new Schedules((request) => this.#ask({ ...request, headers: asAdmin }));
    this.#api = (request) => this.#ask(request);
    this.subscriptions = new Subscriptions(this.#api, runtime);
    this.#keyPrefix = `${limits.callKeyPrefix}${runtime.uniqueId()}:`;
    const onWarning =
      options.onWarning ?? ((error) => runtime.warn(`CODEQ_${error.code}`, error.message));
    this.#producer = new Producer({
      runtime,
      openSession: transports.producer,
      token: this.#token,
      onWarning,
    });
  }

  /**
   * Resolves when the task is stored. While the server cannot be reached it tries again, for as long
   * as `timeout` allows; a task is never stored twice.
   *
   * ```ts
   * const run = await client.enqueue(resize, { image: "cat.png", width: 320 }, { delay: "10s" });
   * ```
   */
  async enqueue<Input, Output>(
    task: TaskType<Input, Output>,
    ...[input, options = {}]: EnqueueArguments<NoInfer<Input>>
  ): Promise<Run<Output>> {
    const id = await this.#create(definitionOf(task), input, options);
    return this.run(task, id);
  }

  /**
   * Resolves when all are stored, in the order of the items. Rejects with an `EnqueueManyError` when
   * some are not; it says which.
   *
   * ```ts
   * const runs = await client.enqueueMany(resize, [
   *   { input: { image: "cat.png", width: 320 } },
   *   { input: { image: "dog.png", width: 320 }, priority: 9 },
   * ]);
   * ```
   */
  async enqueueMany<Input, Output>(
    task: TaskType<Input, Output>,
    items: readonly EnqueueItem<NoInfer<Input>>[],
  ): Promise<Run<Output>[]> {
    const definition = definitionOf(task);
    const created = await Promise.allSettled(
      items.map(({ input, ...options }) => this.#create(definition, input, options)),
    );
    const outcomes = created.map(
      (each): EnqueueOutcome<Output> =>
        each.status === "fulfilled"
          ? { ok: true, run: this.run(task, each.value) }
          : { ok: false, error: each.reason },
    );
    const runs = outcomes.flatMap((outcome) => (outcome.ok ? [outcome.run] : []));
    if (runs.length < outcomes.length) throw new EnqueueManyError(outcomes);
    return runs;
  }

  /**
   * Creates many tasks and one callback, which the server holds until all of them have ended. With members, the batch
   * is sealed; without, add members to the batch and seal it.
   *
   * ```ts
   * const batch = await client.batch({ callback: report, input: { month: "May" } }, [
   *   [resize, { image: "cat.png", width: 320 }],
   *   [resize, { image: "dog.png", width: 320 }],
   * ]);
   * console.log(await batch.callback.result());
   * ```
   */
  batch<Input, Output, const Inputs extends readonly unknown[]>(
    options: BatchOptions<Input, Output>,
    members?: BatchItems<Inputs>,
  ): Promise<Batch<Output>> {
    const { id = this.#runtime.uniqueId().replaceAll(/[^A-Za-z0-9]/g, "0") } = options;
    const isNamed = options.id !== undefined;
    return createBatch(this, this.#api, { ...options, id, isNamed }, members as never);
  }

  /** A batch that was created before, by its id. A handler has the batch of its task: `ctx.batch`. */
  batchById(id: string): BatchHandle {
    return batchOf(this, this.#api, id);
  }

  /**
   * A task that was enqueued before, by its idempotency key. Rejects with the code `not_found` when no task has the key,
   * and with `task_deleted` when its task has ended and was deleted; then the error has its `taskId`.
   *
   * ```ts
   * const run = await client.runByKey(charge, "order-4711");
   * ```
   */
  async runByKey<Input, Output>(task: TaskType<Input, Output>, key: string): Promise<Run<Output>> {
    const { id } = await call(this.#api, "GET /tasks/by-key/:key", { params: { key } });
    return this.run(task, id);
  }

  /** A task that was enqueued before, by its id. */
  run<Input, Output>(task: TaskType<Input, Output>, id: string): Run<Output> {
    return createRun(definitionOf(task), id, {
      wait: async (taskId, options) => {
        const { status, error, attempts, resultJson } = await this.#producer.result(
          taskId,
          options,
        );
        return { status, error, attempts, json: textOf(resultJson) };
      },
      cancel: async (taskId, options) => {
        const given = { params: { id: taskId }, body: graceBody(options) };
        await call(this.#api, "POST /tasks/:id/cancel", given);
      },
      artifacts: (taskId) => artifactsOf(this.#transports.api, this.#token, taskId),
      events: (taskId, signal) => this.#follow(taskId, signal),
      status: (id) => call(this.#api, "GET /tasks/:id", { params: { id } }),
      explain: (id) => call(this.#api, "GET /tasks/:id/explain", { params: { id } }),
      publicToken: (id, seconds) => {
        const given = { params: { id }, body: { seconds } };
        return call(this.#api, "POST /tasks/:id/public-token", given);
      },
    });
  }

  /**
   * Starts a worker. It runs until it is closed, or the process gets SIGTERM or SIGINT.
   *
   * ```ts
   * const worker = client.worker([
   *   resize.handle(async ({ image, width }) => ({ url: await scale(image, width) })),
   * ]);
   * await worker.done;
   * ```
   */
  worker(handlers: Handler | readonly Handler[], options: WorkerOptions = {}): Worker {
    this.#checkOpen();
    checkWorkerOptions(options);
    const { middleware = [], on = {}, lagWarning = lagWarningDefault } = options;
    const byQueue = handlersByQueue(Array.isArray(handlers) ? handlers : [handlers as Handler]);
    const token = options.token === undefined ? this.#token : tokenSource(options.token);
    const worker = new TaskWorker({
      runtime: this.#runtime,
      openSession: this.#transports.worker(),
      token,
      upload: (file) => uploadArtifact(this.#transports.api, token, file),
      batchById: (id) => this.batchById(id),
      tracing: this.#tracing,
      handlers: byQueue,
      middleware,
      concurrency: checkConcurrency(options.concurrency, [...byQueue.values()]),
      tasksMax: checkMaxTasks(options.maxTasks),
      name: checkName(options.name ?? this.#workerName()),
      lagWarningMs: toMs(lagWarning, "lagWarning"),
      graceMs: toMs(options.grace ?? this.#grace, "grace"),
      stacks: options.stacks ?? true,
      reports: new Reports(on, this.#runtime.warn),
    });
    this.#workers.add(worker);
    const ignoreSignals =
      options.signals === false ? () => {} : this.#runtime.onSignal(() => worker.close());
    const forget = (): void => {
      this.#workers.delete(worker);
      ignoreSignals();
    };
    worker.done.then(forget, forget);
    return worker;
  }

  /**
   * Runs a worker until no task has come for a second (`idle`), or until `maxDuration` is nearly over; then it hands
   * back what it has not finished, without an attempt. For functions and for programs that are started by a clock.
   *
   * ```ts
   * const { completed } = await client.workUntilIdle([greeter], { maxDuration: "5m" });
   * ```
   */
  workUntilIdle(
    handlers: Handler | readonly Handler[],
    { maxDuration, idle = idleDefault, ...options }: UntilIdleOptions = {},
  ): Promise<WorkedOff> {
    return workUntilIdle({
      clock: this.#runtime.clock,
      idleMs: toMs(idle, "idle"),
      maxMs: maxDuration === undefined ? Infinity : toMs(maxDuration, "maxDuration"),
      options,
      start: (all) => this.worker(handlers, all),
    });
  }

  /**
   * Closes its workers, waits until what is being enqueued is stored, and ends the connection. What is
   * not stored within `timeout` is rejected.
   */
  async close({
    timeout = closeTimeoutDefault,
  }: {
    readonly timeout?: Duration | undefined;
  } = {}): Promise<void> {
    const timeoutMs = toMs(timeout, "timeout");
    this.#closing.abort(closedError());
    const closed = await Promise.allSettled([
      ...[...this.#workers].map((worker) => worker.close()),
      this.#producer.close(timeoutMs),
    ]);
    for (const each of closed) if (each.status === "rejected") throw each.reason;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal For `@codeq/outbox`: creates a task whose fields were checked before, and stored in a database. */
  createStored(fields: CreateFields, options: CreateOptions): Promise<string> {
    return this.#producer.create(fields, options);
  }

  /** @internal As if the process ended. */
  cut(): void {
    this.#closing.abort(closedError());
    this.#producer.cut();
  }

  #checkOpen(): void {
    if (this.#closing.signal.aborted) throw closedError();
  }

  async #create(
    definition: TaskDefinition,
    input: unknown,
    options: EnqueueOptions,
  ): Promise<string> {
    const payload = await payloadOf(definition, input);
    return this.#tracing.enqueue(definition.name, async (trace) => {
      const { timeout } = options;
      const timeoutMs = timeout === undefined ? enqueueTimeoutMs : toMs(timeout, "timeout");
      const more = { payload, ownKey: this.#nextKey(), trace };
      const fields = await createFields(definition, options, more);
      return this.#producer.create(fields, { timeoutMs, signal: options.signal });
    });
  }

  async #ask(request: Omit<HttpRequest, "token" | "signal">): Promise<unknown> {
    this.#checkOpen();
    const token = await this.#token();
    const { signal } = new AbortController();
    return this.#transports.api.ask({ ...request, token, signal });
  }

  async #download(
    path: string,
    headers: Readonly<Record<string, string>>,
  ): Promise<ReadableStream<Uint8Array>> {
    this.#checkOpen();
    const token = await this.#token();
    return this.#transports.api.download({ path, token, headers, signal: this.#closing.signal });
  }

  async *#follow(
    taskId: string,
    signal: AbortSignal = this.#closing.signal,
  ): AsyncGenerator<TaskUpdate> {
    this.#checkOpen();
    const token = await this.#token();
    const path = `/tasks/${encodeURIComponent(taskId)}/events`;
    const either = AbortSignal.any([signal, this.#closing.signal]);
    yield* updatesIn(taskId, this.#transports.api.follow({ path, token, signal: either }));
  }

  #nextKey(): string {
    this.#lastKey += 1;
    return this.#keyPrefix + this.#lastKey.toString(36);
  }

  #workerName(): string {
    return `${hostname()}-${process.pid}-${this.#runtime.uniqueId().slice(0, 6)}`;
  }
}

function closedError(): CodeqError {
  return new CodeqError("closed", "the client is closed");
}

const own = ownClient(() => codeq());

/**
 * Defines a task. `input` and `output` take a validator of any make that follows Standard Schema (zod,
 * valibot, arktype); without one, give the types yourself.
 *
 * ```ts
 * export const resize = task("resize", {
 *   input: z.object({ image: z.string(), width: z.number() }),
 *   output: z.object({ url: z.string() }),
 *   retry: { maxAttempts: 3 },
 *   timeout: "2m",
 * });
 *
 * export const greet = task<{ name: string }, { text: string }>("greet");
 * ```
 */
export const task: DefineTask = own.task;

/**
 * Makes this client the one that `task.enqueue` and `task.run` use in this process; disposing what it returns
 * brings back the client that was used before.
 *
 * ```ts
 * useClient(codeq({ url: "https://queue.example.com", token: readToken }));
 * await greet.enqueue({ name: "Ada" });
 * ```
 */
export function useClient(client: Client): Disposable {
  return own.use(client);
}

/**
 * Creates a task whose fields were checked when they were stored in a database. Resolves with the id of the task;
 * tries again while the server cannot be reached.
 */
export function createStored(
  client: Client,
  fields: CreateFields,
  options: CreateOptions,
): Promise<string> {
  return client.createStored(fields, options);
}
