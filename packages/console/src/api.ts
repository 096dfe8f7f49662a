/**
 * Calls of the public API. Every call is recorded, so that each page can show its calls, and every call has a deadline.
 * `connection` changes when the server does not answer and when the session has ended.
 *
 *   online       answers arrive, and signs of life in the feed
 *   silent       requests are open or the feed is, and nothing has arrived for `silentMsMax`: the server hangs
 *   offline      a request found no server
 *   signed-out   the session has ended
 */
import type { Giving, Key, ReplyOf } from "@codeq/protocol";
import { createStore } from "./store.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface Request<Answer = unknown> {
  readonly method?: Method;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** A string is sent as it is, so that numbers in its JSON keep their digits. */
  readonly body?: object | string | undefined;
  /** Carries the type of the answer; never set. */
  readonly answer?: Answer;
}

interface Given {
  readonly params?: Readonly<Record<string, unknown>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: object | string;
}

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
  readonly state: "online" | "silent" | "offline" | "signed-out";
  /** When the server was last heard of. */
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
const deadlineMs = 30_000;
/** After this time without an answer or a sign of life in the feed, the page says that the server does not answer. */
export const silentMsMax = 5000;
export const connection = createStore<Connection>({ state: "online", answeredMs: Date.now() });
/** The newest first. */
export const madeCalls = createStore<readonly MadeCall[]>([]);
/** Without this token the server ignores the session cookie. */
let csrf = "";
/** The tenant that an operator has chosen; empty for the operator's own. */
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

/** The answer with its text, in which numbers keep all digits. Throws an ApiError when the server refuses. */
export async function askWithText<T>(
  request: Request<T>,
): Promise<{ readonly answer: T; readonly text: string }> {
  const { method = "GET" } = request;
  const url = urlOf(request);
  const body = bodyOf(request);
  const startedMs = performance.now();
  const { reply, text } = await send(url, {
    method,
    credentials: "same-origin",
    cache: "no-store",
    headers: {
      ...apiHeaders(),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body }),
  });
  const ms = performance.now() - startedMs;
  const call = { method, url, body, status: reply.status, ms };
  madeCalls.set([call, ...madeCalls.get().filter((each) => each.url !== url)].slice(0, madeMax));
  if (reply.ok) return { answer: text === "" ? undefined : JSON.parse(text), text };
  const code = reply.headers.get("codeq-error") ?? "";
  if (reply.status === 401 && code !== "admin_only") {
    connection.set({ state: "signed-out", answeredMs: Date.now() });
  }
  throw new ApiError(reply.status, code, messageOf(text, reply));
}

function bodyOf({ body }: Request): string | undefined {
  return body === undefined || typeof body === "string" ? body : JSON.stringify(body);
}

/** Requests without an answer. */
const underWay = new Set<UnderWay>();

interface UnderWay {
  readonly sentMs: number;
  readonly isRead: boolean;
  readonly abort: AbortController;
}

/** An answer with its text, which has to arrive in time as well. */
async function send(url: string, init: RequestInit): Promise<{ reply: Response; text: string }> {
  const own = {
    sentMs: Date.now(),
    isRead: init.method === "GET",
    abort: new AbortController(),
  };
  underWay.add(own);
  const ms = isLost() ? silentMsMax : deadlineMs;
  const timer = setTimeout(() => own.abort.abort(), ms);
  try {
    const reply = await fetch(url, { ...init, signal: own.abort.signal });
    // A proxy answers so when the server is down.
    if (reply.status === 502 || reply.status === 504) throw new TypeError("no answer");
    const text = await reply.text();
    if (reply.status !== 401) heard();
    return { reply, text };
  } catch {
    if (own.abort.signal.aborted) throw new ApiError(0, "no_answer", noAnswer(own));
    lose("offline");
    throw new ApiError(0, "offline", "The server does not answer");
  } finally {
    clearTimeout(timer);
    underWay.delete(own);
  }
}

/** A file may take its time, but its beginning has to arrive in time. */
export async function openFile(file: Request): Promise<Response> {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), deadlineMs);
  try {
    const { signal } = abort;
    const init = { headers: apiHeaders(), credentials: "same-origin", redirect: "manual" } as const;
    return await fetch(urlOf(file), { ...init, signal });
  } finally {
    clearTimeout(timer);
  }
}

function noAnswer({ sentMs, isRead }: UnderWay): string {
  const seconds = Math.round((Date.now() - sentMs) / 1000);
  const rest = isRead ? "" : ". The change may have been made: look before you send it again";
  return `The server did not answer within ${seconds} s${rest}`;
}

/** Something arrived from the server. */
export function heard(): void {
  connection.set({ state: "online", answeredMs: Date.now() });
}

function lose(state: "silent" | "offline"): void {
  if (connection.get().state === "online") connection.set({ ...connection.get(), state });
}

export function isLost(): boolean {
  const { state } = connection.get();
  return state === "offline" || state === "silent";
}

/**
 * Looks whether the server still answers. `isFeedOpen`: signs of life are due all the time; otherwise they are due from
 * the first open request on. Requests that read are given up, so that the next ones find a free connection.
 */
export function watchSilence(isFeedOpen: boolean): void {
  if (connection.get().state !== "online" || underWay.size === 0) return;
  const { answeredMs } = connection.get();
  const sentMs = Math.min(...[...underWay].map((each) => each.sentMs));
  const sinceMs = isFeedOpen ? answeredMs : Math.max(answeredMs, sentMs);
  if (Date.now() - sinceMs < silentMsMax) return;
  lose("silent");
  for (const { isRead, abort } of underWay) if (isRead) abort.abort();
}

function messageOf(answer: string, { status, statusText }: Response): string {
  try {
    return (JSON.parse(answer) as { error: string }).error;
  } catch {
    // A proxy answered, not the server.
    return `${status} ${statusText}`;
  }
}

export async function ask<T>(request: Request<T>): Promise<T> {
  return (await askWithText(request)).answer;
}

/** As a user would type the call; the token is left out. */
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
