/**
 * Calls of the public API. Every call is remembered, so that each page can show what it asked; a server that
 * does not answer and a session that has ended are told to whoever follows `connection`.
 */
import type { Giving, Key, ReplyOf } from "@codeq/protocol";
import { createStore } from "./store.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface Request<Answer = unknown> {
  readonly method?: Method;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** JSON text when it is a string: numbers in it stay as they are. */
  readonly body?: object | string | undefined;
  readonly signal?: AbortSignal;
  /** Only its type exists: that of the answer. */
  readonly answer?: Answer;
}

interface Given {
  readonly params?: Readonly<Record<string, unknown>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: object | string;
}

/** A call of an endpoint of the API, by its key. */
export function callOf<K extends Key>(
  key: K,
  ...[given]: Giving<K>
): Request<ReplyOf<K>> & { readonly method: Method } {
  const { params = {}, query = {}, body }: Given = given ?? {};
  const [method, template = ""] = key.split(" ") as [Method, string];
  const path = template.replace(/:(\w+)/g, (_, name) => encodeURIComponent(String(params[name])));
  const texts = Object.entries(query).map(([name, value]) => [name, String(value ?? "")]);
  return { method, path: `/v1/codeq${path}`, query: Object.fromEntries(texts), body };
}

export interface MadeCall {
  readonly method: Method;
  /** With its query. */
  readonly url: string;
  readonly body: string | undefined;
  readonly status: number;
  readonly ms: number;
}

export interface Connection {
  readonly state: "online" | "offline" | "signed-out";
  /** When the server last answered. */
  readonly answeredMs: number;
}

export class ApiError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const madeMax = 30;
export const connection = createStore<Connection>({ state: "online", answeredMs: Date.now() });
/** The newest first. */
export const madeCalls = createStore<readonly MadeCall[]>([]);
/** Of the session; without it a cookie counts for nothing. */
let csrf = "";
/** The tenant that an operator looks at; empty for its own. */
export const tenant = createStore("");

export function setCsrf(value: string): void {
  csrf = value;
}

export function apiHeaders(): Record<string, string> {
  return { "x-codeq-csrf": csrf };
}

export function urlOf({ path, query = {} }: Pick<Request, "path" | "query">): string {
  const isForAdmins = path.startsWith("/v1/codeq/admin");
  const all = { ...query, ...(isForAdmins && tenant.get() !== "" ? { tenant: tenant.get() } : {}) };
  const given = Object.entries(all).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== "",
  );
  const search = new URLSearchParams(given).toString();
  return search === "" ? path : `${path}?${search}`;
}

/** The text of the answer; refusals are thrown. */
export async function askText(request: Request): Promise<string> {
  const { method = "GET", signal } = request;
  const url = urlOf(request);
  const text = bodyOf(request);
  const startedMs = performance.now();
  const reply = await send(url, {
    method,
    credentials: "same-origin",
    cache: "no-store",
    headers: {
      ...apiHeaders(),
      ...(text === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(text === undefined ? {} : { body: text }),
    ...(signal === undefined ? {} : { signal }),
  });
  const ms = performance.now() - startedMs;
  const call = { method, url, body: text, status: reply.status, ms };
  madeCalls.set([call, ...madeCalls.get().filter((each) => each.url !== url)].slice(0, madeMax));
  const answer = await reply.text();
  if (reply.ok) return answer;
  const code = reply.headers.get("codeq-error") ?? "";
  if (reply.status === 401 && code !== "admin_only") {
    connection.set({ state: "signed-out", answeredMs: Date.now() });
  }
  throw new ApiError(reply.status, code, messageOf(answer, reply));
}

function bodyOf({ body }: Request): string | undefined {
  return body === undefined || typeof body === "string" ? body : JSON.stringify(body);
}

async function send(url: string, init: RequestInit): Promise<Response> {
  try {
    const reply = await fetch(url, init);
    // A proxy that answers for a server which is gone is no answer of the server.
    if (reply.status === 502 || reply.status === 504) throw new TypeError("no answer");
    if (reply.status !== 401) connection.set({ state: "online", answeredMs: Date.now() });
    return reply;
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    if (connection.get().state === "online") {
      connection.set({ ...connection.get(), state: "offline" });
    }
    throw new ApiError(0, "offline", "The server does not answer");
  }
}

function messageOf(answer: string, { status, statusText }: Response): string {
  try {
    return (JSON.parse(answer) as { error: string }).error;
  } catch {
    // An answer of something in between, not of the server.
    return `${status} ${statusText}`;
  }
}

export async function ask<T>(request: Request<T>): Promise<T> {
  const text = await askText(request);
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

/** As a person would type it. The token is not shown. */
export function curlOf(request: Request): string {
  return curlOfCall({ method: "GET", ...request, url: urlOf(request), body: bodyOf(request) });
}

export function curlOfCall({ method, url, body }: Omit<MadeCall, "status" | "ms">): string {
  const parts = [`curl "$CODEQ_URL${url.replace(/(["$`\\])/g, "\\$1")}"`];
  if (method !== "GET") parts.push(`-X ${method}`);
  parts.push('-H "Authorization: Bearer $CODEQ_TOKEN"');
  if (body !== undefined) parts.push(`-d '${body.replaceAll("'", "'\\''")}'`);
  return parts.join(" \\\n  ");
}
