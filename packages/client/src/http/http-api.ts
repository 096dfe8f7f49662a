/** Requests to the HTTP API of a server. Refusals and faults are thrown with their code. */
import type { errors, WireOf } from "@codeq/protocol";
import type { Health } from "@codeq/protocol/api";
import { CodeqError, type ErrorCode } from "../codeq-error.ts";
import type { Failure } from "../connection/failover.ts";
import {
  type CoreOptions,
  type CoreRequest,
  codeIn,
  ForeignAnswerError,
  HttpCore,
  NoAnswerError,
  type Reply,
  redirectProblem,
  type ServerSentEvent,
  textIn,
} from "./http-core.ts";

export interface HttpRequest {
  readonly method?: "GET" | "POST" | "PATCH" | "DELETE" | "PUT";
  /** Below `/v1/codeq`. */
  readonly path: string;
  readonly token: string;
  /** JSON text, or the pieces of a file. */
  readonly body?: string | AsyncIterable<Uint8Array>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** How long the server may take on purpose. */
  readonly waitMs?: number;
}

const base = "/v1/codeq";
const pageBytesMax = 64 * 1024;
/** A feed says something every 15 seconds. */
const silentMsMax = 45_000;

export class HttpApi {
  readonly #url: URL;
  readonly #core: HttpCore;

  constructor(options: CoreOptions) {
    this.#url = options.url;
    this.#core = new HttpCore(options);
  }

  /** The parsed answer; undefined when it is empty. */
  ask({ token, headers = {}, path, ...request }: HttpRequest): Promise<unknown> {
    return this.#ask({
      ...request,
      path: base + path,
      headers: { authorization: `Bearer ${token}`, ...headers },
    });
  }

  /** A file, from this server or from where it sends the caller to. */
  async download(request: HttpRequest): Promise<ReadableStream<Uint8Array>> {
    const { token, headers = {}, path, signal } = request;
    const sent = { authorization: `Bearer ${token}`, ...headers };
    const answer = await this.#opened({ path: base + path, headers: sent, signal });
    const location = answer.headers.get("location");
    // The token is for the server only.
    const file = location === null ? answer : await fetch(location, { signal });
    if (file.ok) return file.body ?? new ReadableStream();
    const text = await file.text();
    throw refusalOf({ status: file.status, headers: file.headers, text }, this.#url);
  }

  /** The events of an answer that stays open; it fails when the server falls silent. */
  async *follow(given: HttpRequest): AsyncGenerator<ServerSentEvent> {
    const { token, headers = {}, path, ...request } = given;
    const followed = {
      ...request,
      path: base + path,
      headers: { authorization: `Bearer ${token}`, ...headers },
      silentMsMax,
    };
    try {
      yield* this.#core.follow(followed, (reply) => {
        throw refusalOf(reply, this.#url);
      });
    } catch (error) {
      if (error instanceof CodeqError || request.signal.aborted) throw error;
      throw this.#unanswered(error);
    }
  }

  /** The page for probes, which needs no token. Other programs that answer have other pages. */
  async health(): Promise<Partial<WireOf<typeof Health>> | undefined> {
    const { signal } = new AbortController();
    const page = await this.#ask({ path: "/healthz", signal, bytesMax: pageBytesMax });
    return page as Partial<WireOf<typeof Health>> | undefined;
  }

  async #ask(request: CoreRequest): Promise<unknown> {
    const reply = await this.#reply(request);
    if (reply.status >= 200 && reply.status < 300) return parse(reply.text, this.#url);
    throw refusalOf(reply, this.#url);
  }

  #reply(request: CoreRequest): Promise<Reply> {
    return this.#reached(() => this.#core.send(request));
  }

  #opened(request: CoreRequest): Promise<Response> {
    return this.#reached(() => this.#core.open(request));
  }

  async #reached<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (cause) {
      throw this.#unanswered(cause);
    }
  }

  #unanswered(cause: unknown): CodeqError {
    if (cause instanceof ForeignAnswerError)
      return new CodeqError("not_codeq", notCodeq(this.#url));
    const why = cause instanceof Error ? cause.message : String(cause);
    const advice = cause instanceof NoAnswerError ? cause.advice : undefined;
    const text = `cannot reach ${this.#url.origin}: ${why}${advice === undefined ? "" : `; ${advice}`}`;
    return new CodeqError("unavailable", text, { cause });
  }
}

/** Whether a server has answered, by what a request of `HttpApi` threw. */
export function failureOf(error: unknown): Failure {
  if (!(error instanceof CodeqError)) return "answered";
  // A node that is cut off from the leader; another one may reach it.
  if (error.code === "no_leader") return "unsent";
  if (error.code !== "unavailable") return "answered";
  const { cause } = error;
  return cause instanceof NoAnswerError && !cause.mayHaveArrived ? "unsent" : "lost";
}

function parse(text: string, url: URL): unknown {
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CodeqError("not_codeq", notCodeq(url), { cause });
  }
}

function refusalOf(reply: Reply, url: URL): CodeqError {
  const code = codeIn(reply) ?? codeOf(reply.status);
  const who = code === "not_codeq" ? `${notCodeq(url)}:` : "the server answered with";
  const why = redirectProblem(reply) ?? textIn(reply.text, "error");
  const taskId = textIn(reply.text, "taskId");
  const details = taskId === undefined ? {} : { taskId };
  return new CodeqError(code, why ?? `${who} status ${reply.status}`, details);
}

function notCodeq({ origin, pathname }: URL): string {
  return `what answers at ${origin}${pathname} is not a codeQ server`;
}

/** For answers that carry no code. */
function codeOf(status: number): ErrorCode {
  if (status === 401) return "unauthenticated";
  if (status === 403) return "permission_denied";
  if (status >= 500 || status === 429 || status === 408) return "unavailable";
  const isElse = status === 404 || status < 400;
  return isElse ? "not_codeq" : ("invalid_argument" satisfies keyof typeof errors);
}
