/**
 * Requests to the REST API. A refusal becomes an error with an exit code and advice; the error also says
 * whether the request never arrived or its outcome is unknown. If one of several nodes of a cluster does not
 * answer, the next node is asked.
 */
import { Readable } from "node:stream";
import {
  type ApiRequest,
  api,
  codeIn,
  type Endpoint,
  Failover,
  ForeignAnswerError,
  type Given,
  type Giving,
  HttpCore,
  httpsFetch,
  type Key,
  NoAnswerError,
  type Reply,
  type ReplyOf,
  redirectProblem,
  requestOf,
  type ServerSentEvent,
  textIn,
} from "@codeq/client/command-line";
import type { Clock } from "@codeq/server/command-line";
import { CliError } from "../cli-error.ts";
import type { Connection, Sourced } from "../profile/connection.ts";

type Caller = "producer" | "worker";

/** An id that no task has. */
export const noTaskId = "00000000-0000-7000-8000-000000000000";

interface RequestOptions {
  /** How long the server may hold the request before it answers. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

export class ApiClient {
  readonly connection: Connection;
  readonly #servers: Failover<HttpCore>;

  constructor(connection: Connection, clock: Clock) {
    this.connection = connection;
    const { urls, tls } = connection;
    const servers = urls.map((url) => new URL(url));
    const cores = servers.map(
      (url) => new HttpCore({ url, servers, clock, fetch: httpsFetch(url, tls) }),
    );
    this.#servers = new Failover(cores, (error) => {
      if (!(error instanceof NoAnswerError)) return "answered";
      return error.mayHaveArrived ? "lost" : "unsent";
    });
  }

  /** The answer of an endpoint: as it came, and as a value. */
  async call<K extends Key>(
    key: K,
    given: Given<K>,
    options: RequestOptions = {},
  ): Promise<Reply & { readonly value: ReplyOf<K> }> {
    return this.accepted(key, await this.reply(key, given, options));
  }

  /** The answer of an endpoint, whatever its status. */
  reply<K extends Key>(key: K, given: Given<K>, options: RequestOptions = {}): Promise<Reply> {
    return this.send(requestOf(key, ...([given] as Giving<K>)), key, options);
  }

  send(request: ApiRequest, key: Key, options: RequestOptions = {}): Promise<Reply> {
    const path = `/v1/codeq${request.path}`;
    return this.#send({ ...request, path }, options, this.token(callerOf(key)));
  }

  /** Throws a refusal. */
  accepted<K extends Key>(key: K, reply: Reply): Reply & { readonly value: ReplyOf<K> } {
    if (reply.status < 200 || reply.status >= 300) throw this.refusal(reply, callerOf(key));
    return { ...reply, value: reply.text === "" ? undefined : JSON.parse(reply.text) };
  }

  /** A page outside the API, such as `/healthz`; whatever its status. */
  page(path: string): Promise<Reply> {
    return this.#send({ method: "GET", path }, {}, undefined);
  }

  /** The server includes the names of commands for callers on other machines only with an operator's token. */
  metrics(options: RequestOptions = {}): Promise<Reply> {
    const { producerToken } = this.connection;
    return this.#send({ method: "GET", path: "/metrics" }, options, producerToken);
  }

  /** The events of an answer that stays open; it fails when the server falls silent. */
  async *follow<K extends Key>(
    key: K,
    given: Given<K>,
    options: { readonly signal: AbortSignal; readonly silentMsMax: number },
  ): AsyncGenerator<ServerSentEvent> {
    const request = { ...options, ...this.#opening(key, given) };
    try {
      yield* this.#servers.follow(request, (core) =>
        core.follow(request, (reply) => {
          throw this.refusal(reply);
        }),
      );
    } catch (error) {
      throw this.#failure(error, false);
    }
  }

  /** A file, from the server or from where it sends the caller to. */
  async download<K extends Key>(key: K, given: Given<K>): Promise<Readable> {
    try {
      const request = this.#opening(key, given);
      const answer = await this.#servers.ask(request, (core) => core.open(request));
      const location = answer.headers.get("location");
      // The token is for the server only.
      const file = location === null ? answer : await fetch(location);
      if (file.ok && file.body !== null) return Readable.fromWeb(file.body as never);
      throw this.refusal({ status: file.status, headers: file.headers, text: await file.text() });
    } catch (error) {
      throw this.#failure(error, false);
    }
  }

  #opening<K extends Key>(key: K, given: Given<K>) {
    const { method, path } = requestOf(key, ...([given] as Giving<K>));
    return { method, path: `/v1/codeq${path}`, headers: this.#headers(this.token()) };
  }

  /** The error for an answer that is a refusal. */
  refusal(reply: Reply, as?: Caller): CliError {
    return refusalOf(reply, this.connection.baseUrl.value, this.token(as));
  }

  /** The error for an answer that is not from a codeQ server. */
  foreign(cause?: Error): CliError {
    return new CliError(`${this.connection.baseUrl.value} is not a codeQ server`, {
      exit: "unreachable",
      next: "set the address of the server with --base-url or CODEQ_URL",
      cause,
    });
  }

  token(as: Caller = "producer"): Sourced<string> {
    const { producerToken, workerToken, baseUrl } = this.connection;
    const token = as === "worker" ? workerToken : producerToken;
    if (token !== undefined) return token;
    throw new CliError(`there is no ${as} token for ${baseUrl.value}`, {
      exit: "denied",
      next: `pass one with --token or CODEQ_TOKEN, or store one with codeq auth set --${as}-token <token>`,
    });
  }

  async #send(
    { method, path, body }: ApiRequest,
    { waitMs = 0, signal, headers: more = {} }: RequestOptions,
    token: Sourced<string> | undefined,
  ): Promise<Reply> {
    const headers = { ...this.#headers(token), ...more };
    const request = { method, path, headers, body, waitMs, signal };
    try {
      return await this.#servers.ask(request, (core) => core.send(request));
    } catch (error) {
      throw this.#failure(error, method !== "GET");
    }
  }

  /** `changes` when the request asked for a change. */
  #failure(error: unknown, changes: boolean): unknown {
    const { urls, baseUrl } = this.connection;
    if (error instanceof ForeignAnswerError) return this.foreign(error);
    if (!(error instanceof NoAnswerError)) return error;
    const isDoubtful = changes && error.mayHaveArrived;
    const doubt = isDoubtful ? "; the server may or may not have carried out the request" : "";
    return new CliError(
      `${urls.join(", ")} (${baseUrl.source}) cannot be reached: ${error.message}${doubt}`,
      {
        exit: "unreachable",
        next: error.advice ?? startOne,
        cause: error,
      },
    );
  }

  #headers(token: Sourced<string> | undefined): Record<string, string> {
    return {
      ...(token === undefined ? {} : { authorization: `Bearer ${token.value}` }),
      ...(this.connection.admin ? { "x-role": "ADMIN" } : {}),
    };
  }
}

const tables = Object.values<Readonly<Record<string, Endpoint>>>(api);
const endpoints = new Map(
  tables.flatMap((table) => Object.values(table).map((each) => [each.key as string, each])),
);

export function endpointOf(key: Key): Endpoint | undefined {
  return endpoints.get(key);
}

function callerOf(key: Key): Caller {
  return endpointOf(key)?.access === "worker" ? "worker" : "producer";
}

const startOne = "start a server with codeq dev, or set its address with --base-url or CODEQ_URL";

/** The `error` of an answer, or its text when it is something else. */
export function messageIn(text: string): string {
  return textIn(text, "error") ?? text.trim().slice(0, 200);
}

function refusalOf(reply: Reply, baseUrl: string, token: Sourced<string>): CliError {
  const { status, text: body } = reply;
  const serverCode = codeIn(reply);
  const said = redirectProblem(reply) ?? (messageIn(body) || "no reason given");
  const at = { status, body, serverCode };
  if (status === 401 || status === 403) {
    const next =
      serverCode === "not_owner"
        ? "only the worker that holds the lease can do this; codeq get <id> shows that worker"
        : otherToken(token);
    return new CliError(`${baseUrl} refused (${status}): ${said}`, { ...at, exit: "denied", next });
  }
  if (status === 404) {
    return new CliError(said, { ...at, exit: "notFound", next: notFoundAdvice(reply, baseUrl) });
  }
  const retryAfter = reply.headers.get("retry-after");
  const later = status === 429 || status >= 500;
  const next = later ? `try again${retryAfter === null ? "" : ` in ${retryAfter} s`}` : undefined;
  return new CliError(`${baseUrl} refused (${status}): ${said}`, { ...at, exit: "refused", next });
}

/** What is not a task has a list of its own. */
const listsOf: Readonly<Record<string, string>> = {
  subscription_not_found:
    "it may have run out; codeq subscriptions list shows those of the token's tenant",
  topic_not_found:
    "the queue uses the settings of the server; codeq topics list shows the queues with a policy, codeq topics set makes one",
  worker_not_found: "codeq workers shows those of the token's tenant",
  job_not_found: "codeq jobs list shows the bulk jobs of the token's tenant",
  secret_not_found: "codeq webhooks secrets shows the secrets of the token's tenant",
  batch_not_found: "codeq batches list shows those of the token's tenant",
  schedule_not_found: "codeq schedules list shows those of the token's tenant",
  artifact_not_found: "codeq artifacts list shows the files of a task",
  endpoint_not_found: "codeq webhooks endpoints shows the endpoints that fail",
};

const aboutTasks: ReadonlySet<string> = new Set([
  "not_found",
  "task_not_found",
  "task_unknown",
  "result_not_found",
]);

function notFoundAdvice(reply: Reply, baseUrl: string): string {
  const { text } = reply;
  const code = codeIn(reply);
  const advice = listsOf[code ?? ""];
  if (advice !== undefined) return advice;
  if (text.startsWith("404 page")) {
    return `check with codeq doctor that ${baseUrl} is a codeQ server and recent enough`;
  }
  if (text.includes("API key")) return "codeq key list shows the keys of the token's tenant";
  if (!aboutTasks.has(code ?? "")) return "check the name or id and the token";
  return "the task is in another tenant, or its retention has ended; check the id and the token";
}

export function otherToken({ source }: Sourced<string>): string {
  return `the token came from ${source}; pass another one with --token or CODEQ_TOKEN, and run codeq token verify to see what it allows`;
}
