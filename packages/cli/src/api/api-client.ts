/**
 * Requests to the REST API. A refusal becomes an error with an exit code and advice; the error also tells
 * whether the request never arrived or its outcome is unknown. If one of several nodes of a cluster does not
 * answer, the next node is asked.
 */
import { Readable } from "node:stream";
import {
  type ApiRequest,
  codeIn,
  errorIn,
  Failover,
  ForeignAnswerError,
  type Given,
  type Giving,
  HttpCore,
  type Key,
  NoAnswerError,
  type Reply,
  type ReplyOf,
  redirectProblem,
  requestOf,
  type ServerSentEvent,
} from "@codeq/client/command-line";
import type { Clock } from "@codeq/server/command-line";
import { CliError } from "../cli-error.ts";
import type { Connection, Sourced } from "../profile/connection.ts";

type Caller = "producer" | "worker";

interface RequestOptions {
  /** Whose token is sent; that of the producer unless told. */
  readonly as?: Caller;
  /** JSON text. */
  readonly body?: string;
  /** How long the server may hold the request before it answers. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal | undefined;
}

export class ApiClient {
  readonly connection: Connection;
  readonly #servers: Failover<HttpCore>;

  constructor(connection: Connection, clock: Clock) {
    this.connection = connection;
    const { urls, tls } = connection;
    const servers = urls.map((url) => new URL(url));
    const cores = servers.map((url) => new HttpCore({ url, servers, clock, tls }));
    this.#servers = new Failover(cores, (error) => {
      if (!(error instanceof NoAnswerError)) return "answered";
      return error.mayHaveArrived ? "lost" : "unsent";
    });
  }

  /** The answer of an endpoint: as it came, and as a value. */
  async call<K extends Key>(
    key: K,
    given: Given<K>,
    options: Omit<RequestOptions, "as" | "body"> = {},
  ): Promise<Reply & { readonly value: ReplyOf<K> }> {
    const reply = await this.send(requestOf(key, ...([given] as Giving<K>)), options);
    return { ...reply, value: parsed(reply.text) as ReplyOf<K> };
  }

  /** What workers call is called with the token of a worker. */
  send({ method, path, body }: ApiRequest, options: RequestOptions = {}): Promise<Reply> {
    const as = path.startsWith("/workers/") ? "worker" : "producer";
    const sent = body === undefined ? {} : { body };
    return this.#expectOk(method, `/v1/codeq${path}`, { ...options, ...sent, as });
  }

  get(path: string, options: RequestOptions = {}): Promise<Reply> {
    return this.#expectOk("GET", `/v1/codeq${path}`, options);
  }

  post(path: string, body: string, options: RequestOptions = {}): Promise<Reply> {
    return this.#expectOk("POST", `/v1/codeq${path}`, { ...options, body });
  }

  put(path: string, body: string): Promise<Reply> {
    return this.#expectOk("PUT", `/v1/codeq${path}`, { body });
  }

  patch(path: string, body: string): Promise<Reply> {
    return this.#expectOk("PATCH", `/v1/codeq${path}`, { body });
  }

  delete(path: string, options: RequestOptions = {}): Promise<Reply> {
    return this.#expectOk("DELETE", `/v1/codeq${path}`, options);
  }

  /** A page outside the API, such as `/healthz`; whatever its status. */
  page(path: string, options: RequestOptions = {}): Promise<Reply> {
    return this.#send("GET", path, options, undefined);
  }

  /** Names commands to callers from other machines only when it is an operator's token. */
  metrics(options: RequestOptions = {}): Promise<Reply> {
    return this.#send("GET", "/metrics", options, this.connection.producerToken);
  }

  /** An answer of the API, whatever its status. */
  ask(method: string, path: string, options: RequestOptions = {}): Promise<Reply> {
    return this.#send(method, `/v1/codeq${path}`, options, this.token(options.as));
  }

  /** The events of an answer that stays open; it fails when the server falls silent. */
  async *follow(
    path: string,
    options: { readonly signal: AbortSignal; readonly silentMsMax: number },
  ): AsyncGenerator<ServerSentEvent> {
    const request = { ...options, path: `/v1/codeq${path}`, headers: this.#headers(this.token()) };
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
  async download(path: string): Promise<Readable> {
    try {
      const headers = this.#headers(this.token());
      const request = { method: "GET", path: `/v1/codeq${path}`, headers };
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

  async #expectOk(method: string, path: string, options: RequestOptions): Promise<Reply> {
    const reply = await this.#send(method, path, options, this.token(options.as));
    if (reply.status >= 200 && reply.status < 300) return reply;
    throw this.refusal(reply, options.as);
  }

  /** The error that an answer amounts to. */
  refusal(reply: Reply, as?: Caller): CliError {
    return refusalOf(reply, this.connection.baseUrl.value, this.token(as));
  }

  /** The error for an answer that is not from a codeQ server. */
  foreign(cause?: Error): CliError {
    return new CliError(`${this.connection.baseUrl.value} is not a codeQ server`, {
      exit: "unreachable",
      next: "set the address of the server with --base-url or CODEQ_BASE_URL",
      cause,
    });
  }

  /** What is sent to show who is asking. */
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
    method: string,
    path: string,
    options: RequestOptions,
    token: Sourced<string> | undefined,
  ): Promise<Reply> {
    const { body, waitMs = 0, signal } = options;
    const request = { method, path, headers: this.#headers(token), body, waitMs, signal };
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

/** An empty answer has no value. */
export function parsed(text: string): unknown {
  return text === "" ? undefined : JSON.parse(text);
}

const startOne =
  "start a server with codeq dev, or set its address with --base-url or CODEQ_BASE_URL";

/** The `error` of an answer, or its text when it is something else. */
export function messageIn(text: string): string {
  return errorIn(text) ?? text.trim().slice(0, 200);
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

function notFoundAdvice(reply: Reply, baseUrl: string): string {
  const { text } = reply;
  if (codeIn(reply) === "subscription_not_found") {
    return "it may have run out; codeq subscriptions list shows those of the token's tenant";
  }
  if (text.startsWith("404 page")) {
    return `check with codeq doctor that ${baseUrl} is a codeQ server and recent enough`;
  }
  if (text.includes("API key")) return "codeq key list shows the keys of the token's tenant";
  return "the task is in another tenant, or its retention has ended; check the id and the token";
}

export function otherToken({ source }: Sourced<string>): string {
  return `the token came from ${source}; pass another one with --token or CODEQ_TOKEN, and run codeq token verify to see what it allows`;
}
