/**
 * From a request to its reply, the same for plain requests and for those that Fastify reads. The caller is
 * authenticated and the request admitted before the body is read; the body is parsed once, when it has arrived.
 */
import assert from "node:assert/strict";
import { isUtf8 } from "node:buffer";
import { randomFillSync } from "node:crypto";
import type { Readable } from "node:stream";
import type { Clock } from "../../core/clock.ts";
import { type MaybePromise, whenKnown } from "../../core/maybe-promise.ts";
import { type Logger, SpacedWarnings } from "../../telemetry/logger.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { SentRequest, Tracing } from "../../telemetry/tracing/tracing.ts";
import { type Authenticator, isForAdmins } from "../access/authenticator.ts";
import type { Identity } from "../access/identity.ts";
import type { Origin } from "../audit/audit-record.ts";
import type { Connection } from "../connections.ts";
import type { Credentials, Dispatch } from "../dispatch.ts";
import { type Admission, type Answer, type Cluster, refusal } from "../operation.ts";
import { readBody } from "./json-body.ts";
import type { JsonCodec } from "./json-codec.ts";
import { problemOfQuery, type QueryFields, tenantField } from "./query.ts";
import { redirectOf } from "./redirects.ts";
import {
  type AnyRoute,
  type HttpReply,
  type HttpRequest,
  problem,
  problemOf,
  rateLimitHeaders,
} from "./route.ts";

/** A request on the way to its reply. */
export interface Exchange extends Omit<HttpRequest, "body">, SentRequest {
  readonly route: AnyRoute;
  readonly headers: HttpRequest["headers"];
  readonly from: Origin;
  readonly connection: Connection | undefined;
  /** Called when the operation waits for an event. */
  readonly listen: () => Listener;
  /** Undefined until the caller is authenticated. The connection is held from then on. */
  identity: Identity | undefined;
  /** Undefined until the request is admitted. */
  admission: Admission | undefined;
}

/** Watches a caller that waits: the signal aborts when the caller has disconnected. */
export interface Listener {
  readonly signal: AbortSignal;
  readonly abort: () => void;
  /** Runs when the wait is over, whatever the outcome. */
  onceOver(run: () => void): void;
}

/** A request that was answered. */
export interface Answered {
  readonly requestId: string;
  readonly method: string;
  readonly route: string;
  readonly status: number;
  readonly ms: number;
}

export interface CallsParts {
  readonly dispatch: Dispatch;
  readonly authenticator: Authenticator;
  readonly codec: JsonCodec;
  readonly metrics: Metrics;
  readonly tracing: Tracing;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Unknown fields and query parameters are ignored. */
  readonly isLenient: boolean;
  /** Undefined for a server that is not in a cluster. */
  readonly cluster: Pick<Cluster, "leaderUrl"> | undefined;
}

const jsonType = "application/json; charset=utf-8";
const eventsType = "text/event-stream; charset=utf-8";
const unavailable = 503;
const notText = "invalid body: it is not valid UTF-8";

const compressed: HttpReply = {
  ...problemOf("compressed_body"),
  headers: { "accept-encoding": "identity" },
};

export class Calls {
  /** Set at shutdown: requests that would wait are refused from then on. */
  isClosing = false;
  readonly #parts: CallsParts;
  readonly #warnings: SpacedWarnings;

  constructor(parts: CallsParts) {
    this.#parts = parts;
    this.#warnings = new SpacedWarnings(parts.logger, parts.clock);
  }

  /** Authenticates the caller and counts the request; gives the reply when the request is refused. */
  enter(exchange: Exchange, credentials: Credentials): MaybePromise<HttpReply | undefined> {
    const { dispatch, cluster } = this.#parts;
    const { route } = exchange;
    return whenKnown(dispatch.authorize(route.operation, credentials), (answer) => {
      if (!answer.ok) return problem(answer);
      const encoding = exchange.headers["content-encoding"];
      if (encoding !== undefined && isCompressed(String(encoding))) return compressed;
      const elsewhere = cluster && redirectOf(route, exchange, cluster);
      if (elsewhere !== undefined) return elsewhere;
      exchange.identity = answer.value;
      exchange.connection?.hold();
      const admitted = dispatch.admit(route.operation, answer.value);
      if (!admitted.ok) return problem(admitted);
      exchange.admission = admitted.value;
      return undefined;
    });
  }

  /** Answers a request that was admitted. `sent` is its body; undefined when it has none. */
  answer(exchange: Exchange, sent: Buffer | Readable | undefined): MaybePromise<HttpReply> {
    const { route, params, query, headers, identity, admission, from } = exchange;
    const { dispatch, codec, isLenient } = this.#parts;
    assert(identity !== undefined && admission !== undefined, "the request was admitted");
    const body = this.#read(route, sent);
    if (!body.ok) return problem(body);
    if (query !== noQuery && !isLenient) {
      const problematic = problemOfQuery(queryOf(route), query);
      if (problematic !== undefined) return problem(problematic);
    }
    const request = { params, query, headers, body: body.value };
    const input = route.input(request);
    const waits = route.waits?.(input) === true;
    // The body came after the other waiting callers were sent away; waiting would delay the shutdown.
    if (waits && this.isClosing) return problemOf("shutting_down");
    const signal = waits ? this.#watched(identity, exchange.listen()) : undefined;
    const call = { identity, signal, admission, from, authorizedFor: route.operation };
    return whenKnown(dispatch.run(route.operation, call, input), (answer) =>
      answer.ok ? route.reply(answer.value, codec, request) : problem(answer),
    );
  }

  /** Counts, traces and logs a request that was answered. */
  answered(answered: Answered, sent: SentRequest): void {
    const { metrics, tracing, logger } = this.#parts;
    const { route, method, status } = answered;
    metrics.httpRequests.inc(route, method, String(status));
    tracing.requested(answered, sent);
    // While no node leads, every request is refused, and one line in a while says as much.
    if (status === unavailable) this.#warnings.warn("a request was refused", { ...answered });
    else logger[status >= 500 ? "warn" : "debug"]("request", { ...answered });
  }

  /** Logs a bug, and gives the reply to the request that met it. */
  failed(error: unknown, requestId: string, route: string | undefined): HttpReply {
    const shown = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.#parts.logger.error("request failed", { requestId, route, error: shown });
    return problemOf("internal");
  }

  #read(route: AnyRoute, sent: Buffer | Readable | undefined): Answer<unknown> {
    if (sent !== undefined && !Buffer.isBuffer(sent)) return { ok: true, value: sent };
    const text = sent === undefined ? "" : bodyText(sent);
    if (text === undefined) return refusal("invalid_body", notText);
    const isEmpty = route.bodyOptional === true && text === "";
    if (route.body === undefined || isEmpty) return { ok: true, value: undefined };
    const { isLenient } = this.#parts;
    const read = readBody(text, route.body, isLenient);
    if (read.ok) return read;
    if (isLenient && route.bodyOptional === true) return { ok: true, value: undefined };
    return refusal("invalid_body", `${route.invalidBody ?? "invalid body"}: ${read.why}`);
  }

  /** Aborts also when the token of the caller is revoked. */
  #watched(identity: Identity, { signal, abort, onceOver }: Listener): AbortSignal {
    onceOver(this.#parts.authenticator.watch(identity, abort));
    return signal;
  }
}

/** The server decompresses nothing: a small body could become an enormous one. */
function isCompressed(encoding: string): boolean {
  return !/^\s*(identity)?\s*$/i.test(encoding);
}

const replacement = "\ufffd";

/**
 * The text of a body. Bytes that are not UTF-8 are refused (undefined): a decoder would replace different
 * bytes with the same character, so two different keys could become equal.
 */
export function bodyText(bytes: Buffer): string | undefined {
  const text = bytes.toString("utf8");
  // The bytes are checked only when the decoder may have replaced something, which is rare.
  return text.includes(replacement) && !isUtf8(bytes) ? undefined : text;
}

/** The query of a request that has none. */
export const noQuery: HttpRequest["query"] = {};

/** The query parameters that a route accepts. */
export function queryOf({ query = {}, operation }: AnyRoute): QueryFields {
  return isForAdmins(operation.access) ? { ...query, tenant: tenantField } : query;
}

/** The headers of a reply, without those that the connection adds. */
export function headersOf(
  { status, body, headers }: HttpReply,
  admission: Admission | undefined,
): Readonly<Record<string, string>> {
  const limits = admission?.limits();
  return {
    ...(limits === undefined || limits.length === 0 ? undefined : rateLimitHeaders(limits)),
    ...(body === undefined
      ? undefined
      : { "content-type": typeof body === "string" ? jsonType : eventsType }),
    ...(status === 503 ? { "retry-after": "1" } : undefined),
    ...headers,
  };
}

const requestIdPattern = /^[\x21-\x7e]{1,128}$/;
const idBytes = 16;
const poolBytes = 512 * idBytes;
const pool: Buffer = Buffer.alloc(poolBytes);
let poolUsed = poolBytes;

/** The id that the client sent, or 32 random hexadecimal digits. */
export function requestIdOf(sent: string | string[] | undefined): string {
  if (typeof sent === "string" && requestIdPattern.test(sent)) return sent;
  // Random bytes for many ids are drawn at a time.
  if (poolUsed === poolBytes) {
    randomFillSync(pool);
    poolUsed = 0;
  }
  poolUsed += idBytes;
  return pool.toString("hex", poolUsed - idBytes, poolUsed);
}
