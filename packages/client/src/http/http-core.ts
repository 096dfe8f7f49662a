/**
 * A request over HTTP and its answer, whatever the answer says. The library and the command line are both
 * built on this: it has the deadlines, and whether a failed request may have been carried out. Nothing of Node.
 */

import { isUnknownIssuer, type WireOf } from "@codeq/protocol";
import type { FeedEnd, FeedGap } from "@codeq/protocol/api";
import type { RunEvent, RunResult, RunStatus, ScheduleEvent } from "../api-types.ts";
import type { Clock } from "../clock.ts";
import { messageOf } from "../codeq-error.ts";

export interface CoreRequest {
  readonly method?: string;
  /** Below the address of the server, with a slash before it. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON text, or the pieces of a file. */
  readonly body?: string | AsyncIterable<Uint8Array> | undefined;
  readonly signal?: AbortSignal | undefined;
  /** How long the server may hold the request on purpose. */
  readonly waitMs?: number;
  /** Most that is read of the answer. */
  readonly bytesMax?: number;
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  /** Empty when there is no body. */
  readonly text: string;
}

export interface CoreOptions {
  readonly url: URL;
  readonly clock: Clock;
  /** All servers of the cluster; a redirect to one of them is followed, with the token. */
  readonly servers?: readonly URL[] | undefined;
  /** Instead of the global one. */
  readonly fetch?: typeof fetch | undefined;
}

/** How long an answer may take besides what the server was asked to wait. */
const answerMsMax = 30_000;
/** More than any answer has; whatever else listens at the address may never stop talking. */
const answerBytesMax = 256 * 1024 * 1024;

/** From node to node while leaders change; more would be a circle. */
const redirectsMax = 3;

/** Errors that come before a request can have been sent. */
const neverSent = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
]);
/** Errors of a server that does not speak the expected protocol. */
const otherLanguage = new Set(["UND_ERR_SOCKET", "HTTPParserError"]);

/** No answer came. */
export class NoAnswerError extends Error {
  /** The error code of the system or of the TLS library; empty without one. */
  readonly code: string;
  /** The server may have carried out the request. */
  readonly mayHaveArrived: boolean;
  /** What to do about it, when the reason tells. */
  readonly advice: string | undefined;

  constructor(cause: unknown, { isLate, isTls }: { isLate: boolean; isTls: boolean }) {
    const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
    const { code = "", name = "" } = inner as { code?: string; name?: string };
    super(isLate ? `no answer within ${answerMsMax / 1000} s` : reasonOf(code, inner), { cause });
    this.name = "NoAnswerError";
    this.code = code || name;
    this.mayHaveArrived = !neverSent.has(this.code);
    this.advice = isLate ? lateAdvice : adviceFor(this.code, isTls);
  }
}

export class HttpCore {
  readonly #url: URL;
  readonly #clock: Clock;
  readonly #fetch: typeof fetch;
  readonly #origins: ReadonlySet<string>;

  constructor({ url, clock, servers = [], fetch: given }: CoreOptions) {
    this.#url = url;
    this.#origins = new Set([url, ...servers].map(({ origin }) => origin));
    this.#clock = clock;
    this.#fetch = given ?? ((input, init) => fetch(input, init));
  }

  /** Throws a `NoAnswerError`, or what the signal was aborted with. */
  async send(request: CoreRequest): Promise<Reply> {
    const { waitMs = 0, signal, bytesMax = answerBytesMax } = request;
    const late = new AbortController();
    const cancel = this.#clock.after(answerMsMax + waitMs, () => late.abort());
    try {
      const response = await this.#ask(request, late.signal);
      const text = await textOf(response, bytesMax);
      return { status: response.status, headers: response.headers, text };
    } catch (error) {
      throw this.#failureOf(error, { signal, late: late.signal });
    } finally {
      cancel();
    }
  }

  /** An answer as it comes, whose body is the caller's to read. */
  async open(request: CoreRequest): Promise<Response> {
    const late = new AbortController();
    const cancel = this.#clock.after(answerMsMax, () => late.abort());
    try {
      return await this.#ask(request, late.signal);
    } catch (error) {
      throw this.#failureOf(error, { signal: request.signal, late: late.signal });
    } finally {
      cancel();
    }
  }

  /**
   * The events of an answer that stays open. It fails when the server is silent for so long; an answer
   * other than 200 is given to `onRefused`, which throws.
   */
  async *follow(
    request: CoreRequest & { readonly silentMsMax: number },
    onRefused: (reply: Reply) => never,
  ): AsyncGenerator<ServerSentEvent> {
    const { signal, silentMsMax, bytesMax = answerBytesMax } = request;
    const late = new AbortController();
    let cancel = this.#clock.after(answerMsMax, () => late.abort());
    let refused: Reply | undefined;
    try {
      const response = await this.#ask(request, late.signal);
      const { status, headers, body } = response;
      if (status !== 200 || body === null) {
        refused = { status, headers, text: await textOf(response, bytesMax) };
      } else {
        const decoder = new TextDecoder();
        const reader = new EventReader();
        for await (const bytes of body) {
          cancel();
          yield* reader.read(decoder.decode(bytes, { stream: true }));
          cancel = this.#clock.after(silentMsMax, () => late.abort());
        }
      }
    } catch (error) {
      throw this.#failureOf(error, { signal, late: late.signal });
    } finally {
      cancel();
      late.abort();
    }
    if (refused !== undefined) onRefused(refused);
  }

  #failureOf(
    error: unknown,
    { signal, late }: { signal: AbortSignal | undefined; late: AbortSignal },
  ): unknown {
    if (signal?.aborted === true) return signal.reason;
    if (error instanceof ForeignAnswerError) return error;
    const isTls = this.#url.protocol === "https:";
    return new NoAnswerError(error, { isLate: late.aborted, isTls });
  }

  async #ask(request: CoreRequest, late: AbortSignal): Promise<Response> {
    let url = new URL(this.#url.pathname.replace(/\/$/, "") + request.path, this.#url);
    for (let redirects = 0; ; redirects += 1) {
      const response = await this.#askAt(url, request, late);
      const next = redirects < redirectsMax ? this.#redirectOf(response, url, request) : undefined;
      if (next === undefined) return response;
      await response.body?.cancel();
      url = next;
    }
  }

  /** Where another server of the same cluster is to be asked. The token goes nowhere else. */
  #redirectOf({ status, headers }: Response, from: URL, { body }: CoreRequest): URL | undefined {
    const location = headers.get("location");
    // A file that was sent cannot be sent again.
    const isAgain = body === undefined || typeof body === "string";
    if ((status !== 307 && status !== 308) || location === null || !isAgain) return undefined;
    if (!URL.canParse(location, from.href)) return undefined;
    const url = new URL(location, from);
    return this.#origins.has(url.origin) ? url : undefined;
  }

  #askAt(url: URL, request: CoreRequest, late: AbortSignal): Promise<Response> {
    const { method = "GET", headers = {}, body, signal } = request;
    return this.#fetch(url, {
      method,
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : sent(body)),
      // Combining two costs as much as the request itself.
      signal: signal === undefined ? late : AbortSignal.any([signal, late]),
      // Only we know which hosts may see the token.
      redirect: "manual",
    });
  }
}

/** A file goes out piece by piece, whatever its length. */
function sent(body: string | AsyncIterable<Uint8Array>): RequestInit {
  if (typeof body === "string") return { body };
  return { body: ReadableStream.from(body) as ReadableStream, duplex: "half" } as RequestInit;
}

/** Why an answer that sends the caller elsewhere was not followed; undefined for any other. */
export function redirectProblem({ status, headers }: Omit<Reply, "text">): string | undefined {
  const location = headers.get("location");
  if (status < 300 || status >= 400 || location === null) return undefined;
  const to = URL.canParse(location) ? new URL(location).origin : location;
  return `the server redirects to ${to}, which is not among the configured URLs; add it if it is a node of the same cluster`;
}

/** The server's code for what it refused; undefined when something else answered. */
export function codeIn({ headers }: Pick<Reply, "headers">): string | undefined {
  return headers.get("codeq-error") ?? undefined;
}

/** A field of a refusal; undefined when the answer is not one of the API. */
export function textIn(text: string, name: "error" | "taskId"): string | undefined {
  try {
    const { [name]: value } = JSON.parse(text) as { error?: unknown; taskId?: unknown };
    return typeof value === "string" ? value : undefined;
  } catch {
    // The answer of a proxy.
    return undefined;
  }
}

async function textOf({ body }: Response, bytesMax: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const piece of body ?? []) {
    bytes += piece.length;
    if (bytes > bytesMax) throw new ForeignAnswerError(`more than ${bytesMax} bytes`);
    text += decoder.decode(piece, { stream: true });
  }
  return text + decoder.decode();
}

const lateAdvice =
  "the server may hang, or a firewall may drop the request: look at the log of the server, and at /healthz from its machine";

function adviceFor(code: string, isTls: boolean): string | undefined {
  if (isUnknownIssuer(code)) {
    return "name the CA of the server: --ca-file, the option tls.ca of the library, or NODE_EXTRA_CA_CERTS";
  }
  // With TLS 1.3, the server may be gone before the client has read why.
  const isHangUp = isTls && code === "ECONNRESET";
  const isAlert = code.startsWith("ERR_SSL_TLSV1") || code.endsWith("_ALERT_HANDSHAKE_FAILURE");
  if (isAlert || isHangUp) {
    return "the server may want a client certificate: --cert-file and --key-file, or the option tls of the library";
  }
  if (code === "EPIPE") {
    return "it hung up in the middle of the request, as it does when the payload is too large";
  }
  if (otherLanguage.has(code) || code.startsWith("ERR_SSL_")) {
    return "is this the port of the HTTP API, and are http and https right? codeq doctor looks at it";
  }
  return undefined;
}

function reasonOf(code: string, error: unknown): string {
  if (code === "ECONNREFUSED") return "nothing listens there";
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return "the name cannot be resolved";
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER") return "it does not speak TLS";
  // What OpenSSL says has the line of its source in it; the reason is the part for people.
  const { reason } = error as { reason?: unknown };
  return typeof reason === "string" ? reason : messageOf(error) || code;
}

/** The answer is nothing that a codeQ server sends: too long, or not what was asked for. */
export class ForeignAnswerError extends Error {}

/** The events of a feed by their names; a sign of life has none. */
export type ServerSentEvent =
  | { readonly name: ""; readonly value: undefined }
  | { readonly name: "end"; readonly value: WireOf<typeof FeedEnd> }
  | { readonly name: "missed"; readonly value: WireOf<typeof FeedGap> }
  | { readonly name: "task"; readonly value: RunStatus }
  | { readonly name: "result"; readonly value: RunResult }
  | { readonly name: RunEvent["event"]; readonly value: RunEvent }
  | { readonly name: ScheduleEvent["event"]; readonly value: ScheduleEvent };

/** Several times what a server holds for a reader. */
const eventCharsMax = 1024 * 1024;

/** Reads server-sent events from the pieces of an answer. */
export class EventReader {
  #rest = "";

  /** The events that end in this piece. */
  *read(piece: string): Generator<ServerSentEvent> {
    const blocks = (this.#rest + piece).split("\n\n");
    this.#rest = blocks.pop() ?? "";
    for (const block of blocks) yield eventOf(block);
    if (this.#rest.length > eventCharsMax) {
      throw new ForeignAnswerError(`an event has more than ${eventCharsMax} characters`);
    }
  }
}

function eventOf(block: string): ServerSentEvent {
  const name = /^event: (.*)$/m.exec(block)?.[1];
  const data = /^data: (.*)$/m.exec(block)?.[1];
  if (name === undefined || data === undefined) return { name: "", value: undefined };
  try {
    return { name, value: JSON.parse(data) } as ServerSentEvent;
  } catch (cause) {
    throw new ForeignAnswerError("an event is not JSON", { cause });
  }
}
