/**
 * A client for producers that has nothing but `fetch`: every call is a request of its own. For runtimes without
 * Node's modules, such as Cloudflare Workers, Vercel Edge and browsers. What is sent again has the same idempotency
 * key, so that a task is stored once.
 */
import { limits, type ReplyOf } from "@codeq/protocol";
import { type AskApi, call } from "../api-calls.ts";
import { type Clock, systemClock } from "../clock.ts";
import { asCodeqError, CodeqError } from "../codeq-error.ts";
import type { TokenSource } from "../connection/connection.ts";
import { Failover } from "../connection/failover.ts";
import { serverIn, tokenSource, urlDefault, urlsOf } from "../connection/server-address.ts";
import { inWords, toMs } from "../duration.ts";
import { itemOf, taskEnd } from "../http/create-body.ts";
import { failureOf, HttpApi } from "../http/http-api.ts";
import { artifactsOf } from "../payload/artifact.ts";
import {
  createFields,
  type EnqueueArguments,
  EnqueueManyError,
  type EnqueueOptions,
  type EnqueueOutcome,
  payloadOf,
} from "../producer/enqueue-options.ts";
import type { WaitOptions } from "../producer/results.ts";
import { createRun, graceBody, type Run, type TaskEnd } from "../producer/run.ts";
import { updatesIn } from "../producer/run-events.ts";
import {
  type DefineTask,
  definitionOf,
  ownClient,
  type TaskDefinition,
  type TaskType,
} from "../task.ts";

/** Which server, and who is asking. */
export interface FetchClientOptions {
  /** Address of the HTTP API, or those of the nodes of a cluster. Default: `CODEQ_URL`, where there is an environment. */
  readonly url?: string | readonly string[] | undefined;
  /** The token, or a function that returns it. Default: `CODEQ_TOKEN`, where there is an environment. */
  readonly token?: string | (() => string | Promise<string>) | undefined;
  /** Instead of the global `fetch`, such as that of a service binding. */
  readonly fetch?: typeof fetch | undefined;
}

/** One of several tasks that are enqueued together. */
export interface FetchEnqueueItem<Input> extends EnqueueOptions {
  /** What its handler gets. */
  readonly input: Input;
}

const enqueueTimeoutMs = 30_000;
/** Shorter than the time limits of most proxies. */
const waitSeconds = 20;
/** What every server takes in one request. */
const batchMax = 100;
const firstPauseMs = 100;
const longestPauseMs = 5_000;

interface Creation {
  readonly body: string;
  /** Empty for that of the server. */
  readonly mode: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

/** One item of the answer: a task, or why it was refused. */
type Item = ReplyOf<"POST /tasks/batch">["results"][number];
type Created = { readonly id: string } | { readonly error: CodeqError };

/** Made by `codeq` of `@codeq/client/fetch`. */
export class FetchClient {
  readonly #api: Pick<HttpApi, "ask" | "follow" | "download">;
  readonly #token: TokenSource;
  readonly #clock: Clock = systemClock;

  /** @internal Use `codeq`. */
  constructor(options: FetchClientOptions) {
    const isGiven = options.url !== undefined && options.token !== undefined;
    const { url = urlDefault, token = "dev-token" } = serverIn(
      isGiven ? {} : environment(),
      options,
    );
    const urls = urlsOf(url);
    const { fetch } = options;
    const apis = urls.map((at) => {
      return new HttpApi({ url: at, servers: urls, clock: this.#clock, fetch });
    });
    const servers = new Failover(apis, failureOf);
    this.#token = tokenSource(token);
    this.#api = {
      ask: (request) => servers.ask(request, (api) => api.ask(request)),
      download: (request) => servers.ask(request, (api) => api.download(request)),
      follow: (request) => servers.follow(request, (api) => api.follow(request)),
    };
  }

  /**
   * Resolves when the task is stored. While the server cannot be reached it tries again, for as long as `timeout`
   * allows; a task is never stored twice.
   *
   * ```ts
   * const run = await client.enqueue(greet, { name: "Ada" }, { delay: "10s" });
   * ```
   */
  async enqueue<Input, Output>(
    task: TaskType<Input, Output>,
    ...[input, options = {}]: EnqueueArguments<NoInfer<Input>>
  ): Promise<Run<Output>> {
    const [created] = await this.#create([await creationOf(definitionOf(task), input, options)]);
    if (created !== undefined && "id" in created) return this.run(task, created.id);
    throw created?.error ?? new CodeqError("not_codeq", "the answer has no task");
  }

  /** The same for many tasks. Rejects with an `EnqueueManyError` when some are not stored; it says which. */
  async enqueueMany<Input, Output>(
    task: TaskType<Input, Output>,
    items: readonly FetchEnqueueItem<NoInfer<Input>>[],
  ): Promise<Run<Output>[]> {
    const definition = definitionOf(task);
    const creations = await Promise.all(
      items.map(({ input, ...options }) => creationOf(definition, input, options)),
    );
    const created = await this.#create(creations);
    const outcomes = created.map(
      (each): EnqueueOutcome<Output> =>
        "id" in each
          ? { ok: true, run: this.run(task, each.id) }
          : { ok: false, error: each.error },
    );
    const runs = outcomes.flatMap((outcome) => (outcome.ok ? [outcome.run] : []));
    if (runs.length < outcomes.length) throw new EnqueueManyError(outcomes);
    return runs;
  }

  /** A task that was enqueued before, by its idempotency key; rejects with `not_found` or `task_deleted`. */
  async runByKey<Input, Output>(task: TaskType<Input, Output>, key: string): Promise<Run<Output>> {
    const ask: AskApi = (request) => this.#ask(request);
    const { id } = await call(ask, "GET /tasks/by-key/:key", { params: { key } });
    return this.run(task, id);
  }

  /** A task that was enqueued before, by its id. */
  run<Input, Output>(task: TaskType<Input, Output>, id: string): Run<Output> {
    const ask: AskApi = (request) => this.#ask(request);
    return createRun(definitionOf(task), id, {
      wait: (taskId, options) => this.#wait(taskId, options),
      cancel: async (taskId, options) => {
        await call(ask, "POST /tasks/:id/cancel", {
          params: { id: taskId },
          body: graceBody(options),
        });
      },
      artifacts: (taskId) => artifactsOf(this.#api, this.#token, taskId),
      events: (taskId, signal) => updatesIn(taskId, this.#follow(taskId, signal)),
      status: (taskId) => call(ask, "GET /tasks/:id", { params: { id: taskId } }),
      explain: (taskId) => call(ask, "GET /tasks/:id/explain", { params: { id: taskId } }),
      publicToken: (id, seconds) =>
        call(ask, "POST /tasks/:id/public-token", { params: { id }, body: { seconds } }),
    });
  }

  async #create(creations: readonly Creation[]): Promise<readonly Created[]> {
    const requests: Promise<readonly Created[]>[] = [];
    for (let at = 0; at < creations.length; ) {
      // A request has one idempotency mode.
      const next = creations.slice(at, at + batchMax);
      const other = next.findIndex(({ mode }) => mode !== next[0]?.mode);
      const batch = other < 0 ? next : next.slice(0, other);
      requests.push(this.#createBatch(batch));
      at += batch.length;
    }
    return (await Promise.all(requests)).flat();
  }

  async #createBatch(creations: readonly Creation[]): Promise<readonly Created[]> {
    const created: Created[] = [];
    let open = creations.map((_, index) => index);
    const timeoutMs = Math.min(...creations.map((each) => each.timeoutMs));
    const [{ signal, mode } = { signal: undefined, mode: "" }] = creations;
    const headers: Record<string, string> = mode === "" ? {} : { "codeq-idempotency-mode": mode };
    const again = this.#again(timeoutMs, signal);
    do {
      const ask: AskApi = (request) => this.#ask({ ...request, headers, signal });
      const body = `{"tasks":[${open.map((index) => creations[index]?.body).join(",")}]}`;
      const results: readonly (Item | CodeqError)[] = await call(ask, "POST /tasks/batch", {
        body,
      }).then(
        (answer) => answer.results,
        (error: unknown) => {
          signal?.throwIfAborted();
          return open.map(() => asCodeqError(error, "unavailable"));
        },
      );
      for (const [place, index] of open.entries()) created[index] = createdOf(results[place]);
      open = open.filter((index) => {
        const each = created[index];
        return each !== undefined && "error" in each && each.error.retryable;
      });
      const last = created[open[0] ?? -1];
      if (last === undefined || !("error" in last)) break;
      if (!(await again())) {
        const { message } = last.error;
        const text = `no answer within ${inWords(timeoutMs)}: ${message}`;
        const error = new CodeqError("timeout", text, { cause: last.error, ambiguous: true });
        for (const index of open) created[index] = { error };
        break;
      }
    } while (open.length > 0);
    return created;
  }

  async #wait(taskId: string, { timeoutMs, signal }: WaitOptions): Promise<TaskEnd> {
    const withinMs = timeoutMs ?? Number.POSITIVE_INFINITY;
    const untilMs = this.#clock.monotonicMs() + withinMs;
    const again = this.#again(withinMs, signal);
    for (;;) {
      const leftMs = Math.max(0, untilMs - this.#clock.monotonicMs());
      const seconds = Math.min(waitSeconds, Math.ceil(leftMs / 1000));
      const got = await this.#result(taskId, seconds, signal).catch((error: unknown) => {
        signal?.throwIfAborted();
        return asCodeqError(error, "unavailable");
      });
      if (!(got instanceof CodeqError)) return got;
      const isPending = got.code === "result_not_found";
      if (!isPending && !got.retryable) throw got;
      const goesOn = isPending ? leftMs > 0 : await again();
      if (!goesOn) throw noResult(taskId, inWords(withinMs), isPending ? undefined : got);
    }
  }

  async #result(
    taskId: string,
    seconds: number,
    signal: AbortSignal | undefined,
  ): Promise<TaskEnd> {
    const ask: AskApi = (request) => this.#ask({ ...request, signal, waitMs: seconds * 1000 });
    const given = { params: { id: taskId }, query: { waitSeconds: seconds } };
    return taskEnd(await call(ask, "GET /tasks/:id/result", given));
  }

  /** Waits a little longer each time; false when the time would be over. */
  #again(withinMs: number, signal: AbortSignal | undefined): () => Promise<boolean> {
    const clock = this.#clock;
    const untilMs = clock.monotonicMs() + withinMs;
    let tries = 0;
    return async () => {
      const most = Math.min(longestPauseMs, firstPauseMs * 2 ** tries);
      const pauseMs = most / 2 + (most / 2) * random();
      tries += 1;
      if (clock.monotonicMs() + pauseMs > untilMs) return false;
      await new Promise<void>((resolve, reject) => {
        const cancel = clock.after(pauseMs, () => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        });
        const onAbort = (): void => {
          cancel();
          reject(signal?.reason);
        };
        signal?.addEventListener("abort", onAbort, { once: true });
      });
      return true;
    };
  }

  async #ask(
    request: Omit<Parameters<HttpApi["ask"]>[0], "token" | "signal"> & {
      readonly signal?: AbortSignal | undefined;
    },
  ): Promise<unknown> {
    const { signal = new AbortController().signal } = request;
    return this.#api.ask({ ...request, token: await this.#token(), signal });
  }

  async *#follow(taskId: string, signal: AbortSignal = new AbortController().signal) {
    const path = `/tasks/${encodeURIComponent(taskId)}/events`;
    yield* this.#api.follow({ path, token: await this.#token(), signal });
  }
}

function noResult(taskId: string, after: string, cause: CodeqError | undefined): CodeqError {
  const why = cause === undefined ? "" : `: ${cause.message}`;
  const text = `task ${taskId} has no result after ${after}${why}`;
  return new CodeqError("timeout", text, { taskId, cause });
}

async function creationOf(
  definition: TaskDefinition,
  input: unknown,
  options: EnqueueOptions,
): Promise<Creation> {
  const payload = await payloadOf(definition, input);
  const ownKey = `${limits.callKeyPrefix}${uniqueId()}`;
  const fields = await createFields(definition, options, { payload, ownKey, trace: undefined });
  const { timeout, signal } = options;
  const timeoutMs = timeout === undefined ? enqueueTimeoutMs : toMs(timeout, "timeout");
  signal?.throwIfAborted();
  const { idempotencyMode: mode } = fields;
  return { body: itemOf(fields, fields.payload), mode, timeoutMs, signal };
}

function createdOf(result: Item | CodeqError | undefined): Created {
  if (result instanceof CodeqError) return { error: result };
  if (result === undefined)
    return { error: new CodeqError("not_codeq", "the answer is too short") };
  if ("task" in result) return { id: result.task.id };
  return { error: new CodeqError(result.code, result.error) };
}

/** Chance from Web Crypto, which every runtime has. */
function random(): number {
  const [drawn = 0] = crypto.getRandomValues(new Uint32Array(1));
  return drawn / 2 ** 32;
}

function uniqueId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Not every runtime has an environment. */
function environment(): Readonly<Record<string, string | undefined>> {
  // biome-ignore lint/style/noProcessEnv: where this entry reads the environment.
  return globalThis.process?.env ?? {};
}

const own = ownClient(() => codeq());

/**
 * Opens a client for producers. There is nothing to close.
 *
 * ```ts
 * const client = codeq({ url: "https://queue.example.com", token: env.CODEQ_TOKEN });
 * await client.enqueue(greet, { name: "Ada" });
 * ```
 */
export function codeq(options: FetchClientOptions = {}): FetchClient {
  return new FetchClient(options);
}

/** Defines a task, as `task` of `@codeq/client` does; workers of that package take its handlers. */
export const task: DefineTask = own.task;

/** Makes this client the one that `task.enqueue` and `task.run` use; disposing brings back the one before. */
export function useClient(client: FetchClient): Disposable {
  return own.use(client);
}
