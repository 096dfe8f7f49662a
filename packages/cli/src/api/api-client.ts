/**
 * Requests to the REST API. An answer that refuses becomes an error with an exit code and what to do
 * next; a request that never arrived says so, and one whose fate is unknown says that.
 */
import { type Clock, isUnknownIssuer } from "@codeq/server/command-line";
import { CliError } from "../cli-error.ts";
import type { Connection, Sourced } from "../profile/connection.ts";

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  /** Empty when there is no body. */
  readonly text: string;
}

type Caller = "producer" | "worker";

export interface RequestOptions {
  /** Whose token is sent; that of the producer unless told. */
  readonly as?: Caller;
  /** JSON text. */
  readonly body?: string;
  /** How long the server may hold the request before it answers. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal | undefined;
}

const answerMsMax = 30_000;

export class ApiClient {
  readonly connection: Connection;
  readonly #clock: Clock;

  constructor(connection: Connection, clock: Clock) {
    this.connection = connection;
    this.#clock = clock;
  }

  get(path: string, options: RequestOptions = {}): Promise<Reply> {
    return this.#expectOk("GET", `/v1/codeq${path}`, options);
  }

  post(path: string, body: string, options: RequestOptions = {}): Promise<Reply> {
    return this.#expectOk("POST", `/v1/codeq${path}`, { ...options, body });
  }

  delete(path: string): Promise<Reply> {
    return this.#expectOk("DELETE", `/v1/codeq${path}`, {});
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

  /** An answer that stays open, piece by piece; it fails when the server falls silent. */
  async *follow(
    path: string,
    options: { readonly signal: AbortSignal; readonly silentMsMax: number },
  ): AsyncGenerator<string> {
    const { signal, silentMsMax } = options;
    const { baseUrl } = this.connection;
    const headers = this.#headers(this.token(), undefined);
    const limit = new AbortController();
    let cancel = this.#clock.after(answerMsMax, () => limit.abort());
    try {
      const response = await fetch(`${baseUrl.value}/v1/codeq${path}`, {
        headers,
        signal: AbortSignal.any([limit.signal, signal]),
        redirect: "manual",
      });
      const { status } = response;
      if (status !== 200 || response.body === null) {
        throw this.refusal({ status, headers: response.headers, text: await response.text() });
      }
      const decoder = new TextDecoder();
      for await (const bytes of response.body) {
        cancel();
        cancel = this.#clock.after(silentMsMax, () => limit.abort());
        yield decoder.decode(bytes, { stream: true });
      }
    } catch (error) {
      if (error instanceof CliError || signal.aborted) throw error;
      throw unreachable(baseUrl, { error, isLate: limit.signal.aborted, changes: false });
    } finally {
      cancel();
      limit.abort();
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

  /** What is sent to show who is asking. */
  token(as: Caller = "producer"): Sourced<string> {
    const { producerToken, workerToken, baseUrl } = this.connection;
    const token = as === "worker" ? workerToken : producerToken;
    if (token !== undefined) return token;
    throw new CliError(`there is no ${as} token for ${baseUrl.value}`, {
      exit: "denied",
      next: `give one with --token or CODEQ_TOKEN, or keep it: codeq auth set --${as}-token <token>`,
    });
  }

  async #send(
    method: string,
    path: string,
    options: RequestOptions,
    token: Sourced<string> | undefined,
  ): Promise<Reply> {
    const { body, waitMs = 0, signal } = options;
    const limit = new AbortController();
    const cancel = this.#clock.after(waitMs + answerMsMax, () => limit.abort());
    try {
      const response = await fetch(this.connection.baseUrl.value + path, {
        method,
        headers: this.#headers(token, body),
        ...(body === undefined ? {} : { body }),
        // Combining two costs as much as the request itself.
        signal: signal === undefined ? limit.signal : AbortSignal.any([limit.signal, signal]),
        // A redirect to another host would lose the token, and the reader should know of it.
        redirect: "manual",
      });
      return { status: response.status, headers: response.headers, text: await response.text() };
    } catch (error) {
      if (signal?.aborted === true) throw error;
      throw unreachable(this.connection.baseUrl, {
        error,
        isLate: limit.signal.aborted,
        changes: method !== "GET",
      });
    } finally {
      cancel();
    }
  }

  #headers(token: Sourced<string> | undefined, body: string | undefined): Record<string, string> {
    return {
      ...(token === undefined ? {} : { authorization: `Bearer ${token.value}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(this.connection.admin ? { "x-role": "ADMIN" } : {}),
    };
  }
}

/** The `error` of an answer, or its text when it is something else. */
export function messageIn(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === "string") return error;
  } catch {
    // Not JSON: an answer of something else than codeQ, which is shown as it is.
  }
  return text.trim().slice(0, 200);
}

/** The server's code for what it refused; undefined when something else answered. */
export function codeOf({ headers }: Reply): string | undefined {
  return headers.get("codeq-error") ?? undefined;
}

function refusalOf(reply: Reply, baseUrl: string, token: Sourced<string>): CliError {
  const { status, text: body } = reply;
  const serverCode = codeOf(reply);
  const said = messageIn(body) || "no reason given";
  const at = { status, body, serverCode };
  if (status === 401 || status === 403) {
    const next =
      serverCode === "not_owner"
        ? "only the worker that holds the lease can do this; codeq get <id> shows which one"
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

function notFoundAdvice({ text }: Reply, baseUrl: string): string {
  if (text.startsWith("404 page")) {
    return `is ${baseUrl} a codeQ server, and new enough? codeq doctor looks at it`;
  }
  if (text.includes("API key")) return "codeq key list shows those of the token's tenant";
  return "ids belong to one tenant and go away after retention; check id and token";
}

export function otherToken({ source }: Sourced<string>): string {
  return `the token came from ${source}; give another with --token or CODEQ_TOKEN, and see what it may do: codeq token verify`;
}

interface Failure {
  readonly error: unknown;
  readonly isLate: boolean;
  /** The request asks for a change. */
  readonly changes: boolean;
}

/** Before these a request cannot have been sent. */
const neverSent = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
]);

function unreachable(baseUrl: Sourced<string>, { error, isLate, changes }: Failure): CliError {
  const cause = (error as { cause?: { code?: string; name?: string; message?: string } }).cause;
  const code = cause?.code ?? cause?.name ?? "";
  const why = isLate ? `no answer within ${answerMsMax / 1000} s` : reasonOf(code, cause, error);
  const doubt =
    changes && !neverSent.has(code) ? "; it is not known whether the request was carried out" : "";
  return new CliError(`${baseUrl.value} (${baseUrl.source}) cannot be reached: ${why}${doubt}`, {
    exit: "unreachable",
    next: adviceFor(code),
    cause: error,
  });
}

/** Something is there, and it does not speak what was expected. */
const otherLanguage = new Set(["UND_ERR_SOCKET", "HTTPParserError"]);

function adviceFor(code: string): string {
  if (isUnknownIssuer(code)) return "name the CA of the server: NODE_EXTRA_CA_CERTS=ca.crt";
  if (code === "EPIPE") {
    return "it hung up in the middle of the request, as it does when the payload is too large";
  }
  if (otherLanguage.has(code) || code.startsWith("ERR_SSL_")) {
    return "is this the port of the HTTP API, and are http and https right? codeq doctor looks at it";
  }
  return "start a server with codeq dev, or say where it is with --base-url or CODEQ_BASE_URL";
}

function reasonOf(code: string, cause: { message?: string } | undefined, error: unknown): string {
  if (code === "ECONNREFUSED") return "nothing listens there";
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return "the name cannot be resolved";
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER") return "it does not speak TLS";
  return cause?.message || code || String(error);
}
