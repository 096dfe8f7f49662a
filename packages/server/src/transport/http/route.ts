/**
 * What turns an operation into an HTTP route: where it is, what its body looks like, how a request
 * becomes its input and an answer becomes a reply.
 */
import type { Readable } from "node:stream";
import { type ErrorCode, errors } from "@codeq/protocol";
import type { Answer, Operation, Refusal } from "../../operations/operation.ts";
import { wholeSeconds } from "../../operations/over-quota.ts";
import type { Shape } from "./json-body.ts";
import type { JsonCodec } from "./json-codec.ts";
import { rateLimitHeaders } from "./rate-limit-headers.ts";

export interface HttpRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** What the shape made of it; undefined when there is none. */
  readonly body: unknown;
}

export interface HttpReply {
  readonly status: number;
  /** JSON text, or events that are sent as they come; undefined for an empty body. */
  readonly body: string | Readable | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Route<Input, Output> {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly operation: Operation<Input, Output>;
  readonly body?: Shape<unknown>;
  /** The text for a body that is not JSON or has another shape. */
  readonly invalidBody?: string;
  /** A body that cannot be used is taken for a missing one. */
  readonly bodyOptional?: boolean;
  /** The operation may wait for an event, so a caller that leaves has to be noticed. */
  readonly waits?: (input: Input) => boolean;
  readonly input: (request: HttpRequest) => Answer<Input>;
  readonly reply: (output: Output, codec: JsonCodec, request: HttpRequest) => HttpReply;
}

// biome-ignore lint/suspicious/noExplicitAny: a table of routes does not look at their inputs.
export type AnyRoute = Route<any, any>;

export function route<Input, Output>(definition: Route<Input, Output>): Route<Input, Output> {
  return definition;
}

export function json(body: string, status = 200): HttpReply {
  return { status, body };
}

export function problem(refusal: Refusal): HttpReply {
  const { code, text, details, retryAfterMs } = refusal;
  const status = errors[code].http;
  const body = JSON.stringify({ error: text, ...details });
  const named = { "codeq-error": code };
  if (retryAfterMs === undefined) return { status, body, headers: named };
  const seconds = wholeSeconds(retryAfterMs);
  const limits = rateLimitHeaders(refusal.limits ?? [], seconds);
  return { status, body, headers: { ...named, ...limits, "retry-after": String(seconds) } };
}

export function problemOf(code: ErrorCode, text: string = errors[code].text): HttpReply {
  return problem({ ok: false, code, text });
}
