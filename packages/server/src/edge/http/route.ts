/**
 * Describes an operation as an HTTP route: path, parameters, replies, refusals, and how a request becomes
 * the input and an answer becomes the reply. Requests are parsed by this description; the OpenAPI document
 * and the reference page are generated from it.
 */
import type { Readable } from "node:stream";
import { type ErrorCode, errors } from "@codeq/protocol";
import type { LimitState } from "../../core/limiter/limiter.ts";
import type { Operation, Refusal } from "../operation.ts";
import { wholeSeconds } from "../refusal-of.ts";
import type { JsonSchema } from "./contract/contract-schema.ts";
import type { ValueReader } from "./json-body.ts";
import type { JsonCodec } from "./json-codec.ts";
import type { QueryFields } from "./query.ts";

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

export interface Route<Input, Output> extends RouteDescription {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE" | "PUT";
  readonly path: string;
  readonly operation: Operation<Input, Output>;
  readonly body?: BodyDescription;
  /** What the text for a body that does not fit begins with. */
  readonly invalidBody?: string;
  /** A request without a body is fine; for lenient callers a body that cannot be used is none. */
  readonly bodyOptional?: boolean;
  /** Less than what the configuration allows for all routes. */
  readonly bodyBytesMax?: number;
  readonly forLargeBodies?: string;
  readonly query?: QueryFields;
  /** Clients that ask for it are redirected to the leader: of the task in the path, or of the only shard. */
  readonly redirects?: true;
  readonly isCrossOrigin?: true;
  /** The body is a file, which the operation reads piece by piece. */
  readonly isUpload?: true;
  /** The operation may wait for an event, so a caller that leaves has to be noticed. */
  readonly waits?: (input: Input) => boolean;
  readonly input: (request: HttpRequest) => Input;
  readonly reply: (output: Output, codec: JsonCodec, request: HttpRequest) => HttpReply;
}

/** How a body is read, and its schema in the OpenAPI document. */
export interface BodyDescription extends ValueReader<unknown> {
  readonly schema: JsonSchema;
}

/** What other programs and readers need to know beside what the server runs on. */
interface RouteDescription {
  /** Names it for generated clients. */
  readonly name: string;
  /** What it does, in one line without a period. */
  readonly summary: string;
  readonly about?: string;
  /** The parts of the path that are not fixed. */
  readonly params?: QueryFields;
  readonly replies: Readonly<Record<number, DescribedReply>>;
  /** What it may be refused with beside what all routes like it may be refused with. */
  readonly refusals?: readonly ErrorCode[];
}

interface DescribedReply {
  readonly about: string;
  /** Without one the answer is empty, or events. */
  readonly schema?: string;
  readonly type?: "text/event-stream" | "application/octet-stream";
  /** Headers that only this reply has. */
  readonly headers?: Readonly<Record<string, string>>;
}

// biome-ignore lint/suspicious/noExplicitAny: a table of routes does not look at their inputs.
export type AnyRoute = Route<any, any>;

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

/**
 * The limits of a caller and what is left of them, in the fields of the IETF draft for rate limits (revision
 * 10 and later): `RateLimit-Policy` lists the limits, `RateLimit` what is left of each.
 *
 *   q  the burst            w  seconds in which it is refilled
 *   r  what is left         t  seconds until there is more; not sent when it is full
 *
 * For a refusal, `retryAfterSeconds` says when there will be enough for the refused request.
 */
export function rateLimitHeaders(
  limits: readonly LimitState[],
  retryAfterSeconds?: number,
): Record<string, string> {
  if (limits.length === 0) return {};
  const policies = limits.map(
    ({ name, burst, refillMs }) => `"${name}";q=${burst};w=${wholeSeconds(refillMs)}`,
  );
  const states = limits.map(({ name, remaining, nextMs }) => {
    const seconds = retryAfterSeconds ?? (nextMs === 0 ? 0 : wholeSeconds(nextMs));
    return `"${name}";r=${remaining}${seconds === 0 ? "" : `;t=${seconds}`}`;
  });
  return { "ratelimit-policy": policies.join(", "), ratelimit: states.join(", ") };
}
