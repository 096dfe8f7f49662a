/**
 * Recognises the requests that make up nearly all traffic: a POST with a Content-Length that has arrived in
 * one piece, without anything that HTTP gives a special meaning. Every parser reads such a request in the
 * same way. All other requests are left to the parser of Node: no request is refused here, and none is
 * parsed differently.
 */
import { copyOf, sharedCharsMax } from "../json-body.ts";
import type { AnyRoute } from "../route.ts";

export interface PlainRequest {
  readonly path: string;
  /** The headers that routes use. */
  readonly headers: PlainHeaders;
  readonly bodyAt: number;
  readonly bodyBytes: number;
}

export interface PlainHeaders {
  [name: string]: string | undefined;
  host: string | undefined;
  "content-length": string | undefined;
  authorization: string | undefined;
  "x-role": string | undefined;
  "x-request-id": string | undefined;
  traceparent: string | undefined;
  tracestate: string | undefined;
}

const method = "POST ";
const version = " HTTP/1.1\r\n";
const headEnd = "\r\n\r\n";
/** Whole lines of printable ASCII; no tabs, no continued lines. */
const headerLines = /^(?:[A-Za-z0-9-]+:[\x20-\x7e]*\r\n)+$/;
const length = /^(?:0|[1-9][0-9]{0,6})$/;
const headersMax = 64;

const used: ReadonlySet<string> = new Set([
  ...["host", "content-length", "authorization", "x-role", "x-request-id"],
  ...["traceparent", "tracestate"],
]);
/** Requests with one of these headers are left to Node's parser. */
const special: ReadonlySet<string> = new Set([
  ...["transfer-encoding", "connection", "proxy-connection", "upgrade", "http2-settings"],
  ...["expect", "content-encoding", "te", "trailer", "cookie"],
  // Rare, and not among the headers that a plain request keeps.
  ...["codeq-redirect", "codeq-idempotency-mode"],
]);

/** Undefined when the bytes are not a plain request. */
export function readPlain(bytes: Buffer): PlainRequest | undefined {
  const end = bytes.indexOf(headEnd);
  if (end < 0) return undefined;
  const head = bytes.toString("latin1", 0, end + 2);
  const lineEnd = head.indexOf("\r\n") + 2;
  const pathEnd = lineEnd - version.length;
  if (!head.startsWith(method) || !head.startsWith(version, pathEnd)) return undefined;
  const lines = head.slice(lineEnd);
  if (!headerLines.test(lines)) return undefined;
  const headers: PlainHeaders = {
    host: undefined,
    "content-length": undefined,
    authorization: undefined,
    "x-role": undefined,
    "x-request-id": undefined,
    traceparent: undefined,
    tracestate: undefined,
  };
  if (!readHeaders(lines, headers)) return undefined;
  const { host, "content-length": bodyLength } = headers;
  if (host === undefined || bodyLength === undefined || !length.test(bodyLength)) return undefined;
  const path = ownOf(head.slice(method.length, pathEnd), head);
  return { path, headers, bodyAt: end + headEnd.length, bodyBytes: Number(bodyLength) };
}

/** False when a header makes the request not plain. */
function readHeaders(lines: string, headers: PlainHeaders): boolean {
  let count = 0;
  for (let at = 0; at < lines.length; count += 1) {
    const colon = lines.indexOf(":", at);
    const end = lines.indexOf("\r\n", colon);
    const name = lines.slice(at, colon).toLowerCase();
    at = end + 2;
    if (used.has(name)) {
      // Node ignores some repeated headers and joins others.
      if (headers[name] !== undefined) return false;
      headers[name] = ownOf(lines.slice(colon + 1, end).trim(), lines);
    } else if (special.has(name) && !isKeepAlive(name, lines.slice(colon + 1, end))) {
      return false;
    }
  }
  return count <= headersMax;
}

/** Copies a substring that outlives the request, because a slice keeps the whole string in memory. */
function ownOf(part: string, whole: string): string {
  return whole.length <= sharedCharsMax ? part : copyOf(part);
}

/** `Connection: keep-alive` is the default of HTTP/1.1. */
function isKeepAlive(name: string, value: string): boolean {
  return name === "connection" && value.trim().toLowerCase() === "keep-alive";
}

export interface FoundRoute {
  readonly route: AnyRoute;
  readonly params: Readonly<Record<string, string>>;
}

const noParams: FoundRoute["params"] = {};
/** An id without escapes. Others are left to the router of Fastify. */
const idPattern = /^[0-9A-Za-z-]{1,64}$/;
const idName = ":id";

/** Finds the routes of requests with a body, by paths without a query. */
export class PlainRoutes {
  readonly #fixed = new Map<string, FoundRoute>();
  readonly #ofTasks: { readonly before: string; readonly behind: string; route: AnyRoute }[] = [];

  constructor(routes: readonly AnyRoute[]) {
    for (const route of routes) {
      const [before = "", behind] = route.path.split(idName);
      if (route.method !== "POST") continue;
      if (behind === undefined) this.#fixed.set(before, { route, params: noParams });
      else this.#ofTasks.push({ before, behind, route });
    }
  }

  find(path: string): FoundRoute | undefined {
    const fixed = this.#fixed.get(path);
    if (fixed !== undefined) return fixed;
    for (const { before, behind, route } of this.#ofTasks) {
      if (!path.endsWith(behind) || !path.startsWith(before)) continue;
      const id = path.slice(before.length, path.length - behind.length);
      return idPattern.test(id) ? { route, params: { id } } : undefined;
    }
    return undefined;
  }
}
