/** Requests to the HTTP API of a server. Refusals and faults are thrown with their code. */
import { type errors, isUnknownIssuer } from "@codeq/protocol";
import { CodeqError, type ErrorCode, messageOf } from "../codeq-error.ts";
import type { Runtime } from "../runtime.ts";

export interface HttpRequest {
  readonly method?: "GET" | "POST" | "DELETE";
  /** Below `/v1/codeq`. */
  readonly path: string;
  readonly token: string;
  /** JSON text. */
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** How long the server may take on purpose. */
  readonly waitMs?: number;
}

const base = "/v1/codeq";
/** How long an answer may take beside what was asked for. */
const answerMsMax = 15_000;
/** More than any answer has; whatever else listens at the address may never stop talking. */
const answerBytesMax = 256 * 1024 * 1024;
const pageBytesMax = 64 * 1024;

export class HttpApi {
  readonly #url: URL;
  readonly #runtime: Runtime;

  constructor(url: URL, runtime: Runtime) {
    this.#url = url;
    this.#runtime = runtime;
  }

  /** The parsed answer; undefined when it is empty. */
  async ask(request: HttpRequest): Promise<unknown> {
    const { path, token, headers = {}, waitMs = 0 } = request;
    return this.#fetch(base + path, {
      ...request,
      headers: { authorization: `Bearer ${token}`, ...headers },
      waitMs,
      bytesMax: answerBytesMax,
    });
  }

  /** A page that needs no token, such as `/healthz`. */
  page(path: string, signal: AbortSignal): Promise<unknown> {
    return this.#fetch(path, { headers: {}, signal, waitMs: 0, bytesMax: pageBytesMax });
  }

  async #fetch(
    path: string,
    request: Pick<HttpRequest, "method" | "body" | "signal"> & {
      readonly headers: Readonly<Record<string, string>>;
      readonly waitMs: number;
      readonly bytesMax: number;
    },
  ): Promise<unknown> {
    const { method = "GET", body, headers, signal, waitMs, bytesMax } = request;
    const late = new AbortController();
    const cancel = this.#runtime.clock.after(answerMsMax + waitMs, () =>
      late.abort(new Error("no answer in time")),
    );
    try {
      const reply = await this.#runtime.fetch(
        new URL(this.#url.pathname.replace(/\/$/, "") + path, this.#url),
        {
          method,
          headers: {
            ...(body === undefined ? {} : { "content-type": "application/json" }),
            ...headers,
          },
          signal: AbortSignal.any([signal, late.signal]),
          redirect: "error",
          ...(body === undefined ? {} : { body }),
        },
      );
      const text = await textOf(reply, bytesMax, this.#url);
      if (reply.ok) return parse(text, this.#url);
      throw refusalOf(reply, text, this.#url);
    } catch (cause) {
      if (cause instanceof CodeqError) throw cause;
      throw new CodeqError("unavailable", `cannot reach ${this.#url.origin}: ${whyOf(cause)}`, {
        cause,
      });
    } finally {
      cancel();
    }
  }
}

async function textOf({ body }: Response, bytesMax: number, url: URL): Promise<string> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of body ?? []) {
    bytes += piece.length;
    if (bytes > bytesMax) throw new CodeqError("not_codeq", notCodeq(url));
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString("utf8");
}

function parse(text: string, url: URL): unknown {
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CodeqError("not_codeq", notCodeq(url), { cause });
  }
}

/** What fetch throws says nothing; its cause does. */
function whyOf(thrown: unknown): string {
  const cause = thrown instanceof Error ? thrown.cause : undefined;
  const code = (cause as NodeJS.ErrnoException | undefined)?.code ?? "";
  // fetch takes no certificates of ours, and `tls` is for streams.
  const fix = isUnknownIssuer(code) ? "; name its CA with NODE_EXTRA_CA_CERTS=ca.crt" : "";
  return messageOf(cause instanceof Error ? cause : thrown) + fix;
}

function refusalOf(reply: Response, text: string, url: URL): CodeqError {
  const told = reply.headers.get("codeq-error");
  const code = told ?? codeOf(reply.status);
  const who = code === "not_codeq" ? `${notCodeq(url)}:` : "the server answered with";
  return new CodeqError(code, errorText(text) ?? `${who} status ${reply.status}`);
}

function notCodeq({ origin, pathname }: URL): string {
  return `what answers at ${origin}${pathname} is not a codeQ server`;
}

function errorText(text: string): string | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    return typeof error === "string" ? error : undefined;
  } catch {
    // The answer of something in between; its status has to do.
    return undefined;
  }
}

/** For answers that carry no code. */
function codeOf(status: number): ErrorCode {
  if (status === 401) return "unauthenticated";
  if (status === 403) return "permission_denied";
  if (status >= 500 || status === 429 || status === 408) return "unavailable";
  return status === 404 ? "not_codeq" : ("invalid_argument" satisfies keyof typeof errors);
}
