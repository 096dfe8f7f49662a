/**
 * The HTTP request of a callback: body, signature and a client that follows no redirects and, unless
 * allowed, does not connect to private addresses. A request takes a bounded time, and little more than the
 * status of the answer is read.
 */
import { type ClientRequest, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import type { Result, Task } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import { isPublicAddress } from "../public-addresses.ts";
import { noTracing, type TracedPost, type Tracing } from "../telemetry/tracing/tracing.ts";
import type { Timestamps } from "../timestamps.ts";
import { createLookup, ForbiddenAddressError } from "./callback-lookup.ts";
import type { NoAnswer, PostCallback } from "./deliver-webhooks.ts";
import { type SigningSecrets, signatureHeaders } from "./webhook-signature.ts";

export interface CallbackOptions extends SigningSecrets {
  readonly allowPrivateNetworks: boolean;
  readonly clock: Clock;
  readonly timestamps: Timestamps;
  readonly tracing?: Tracing | undefined;
}

/** Until the connection stands, name lookup and TLS included. */
const connectMs = 3000;
const answerMs = 15_000;
/** What is read of an answer before the connection is cut. */
const answerBytesMax = 64 * 1024;

export function createPostCallback(options: CallbackOptions): PostCallback {
  const isAllowed = options.allowPrivateNetworks ? () => true : isPublicAddress;
  const lookup = createLookup({ isAllowed });
  const tracing = options.tracing ?? noTracing;
  return async (task, result, attempt, own) => {
    const traced = tracing.posting(task, attempt);
    const body = callbackBody(task, result, options.timestamps);
    const headers = {
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(body)),
      ...signatureHeaders(options, {
        tenantId: task.tenantId,
        own,
        // Another result of the same task is another message.
        id: `msg_${task.id}_${result.completedMs.toString(36)}`,
        timestampSeconds: Math.floor(options.clock.nowMs() / 1000),
        body,
      }),
    };
    return postTraced(task.webhook, traced, { ...options, headers, body, lookup });
  };
}

/** Posts with the context of a span, which lasts until the answer is there. */
export async function postTraced(
  target: string,
  traced: TracedPost,
  options: PostOptions,
): Promise<number | NoAnswer> {
  const { traceParent, traceState } = traced;
  const headers = {
    ...options.headers,
    ...(traceParent === "" ? {} : { traceparent: traceParent }),
    ...(traceState === "" ? {} : { tracestate: traceState }),
  };
  let answer: number | NoAnswer | undefined;
  try {
    answer = await post(target, { ...options, headers });
  } finally {
    traced.end(typeof answer === "number" ? answer : undefined);
  }
  return answer;
}

function callbackBody(task: Task, result: Result, timestamps: Timestamps): string {
  const json = result.resultJson === "" ? "null" : result.resultJson;
  return (
    `{"taskId":"${task.id}","eventType":"${task.command}","status":"${result.status}",` +
    `"result":${json},"error":${JSON.stringify(result.error)},` +
    `"artifacts":${JSON.stringify(result.artifacts)},` +
    `"completedAt":"${timestamps.local(result.completedMs)}"}`
  );
}

export interface PostOptions extends Pick<CallbackOptions, "allowPrivateNetworks" | "clock"> {
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly lookup: LookupFunction;
}

/** The one way out: no redirects, and no address that is not allowed. */
function post(target: string, options: PostOptions): Promise<number | NoAnswer> {
  const url = new URL(target);
  const { allowPrivateNetworks: allowPrivate, headers, body, clock, lookup } = options;
  const host = url.hostname.replace(/^\[|\]$/g, "");
  // An address that is written out is connected to without being looked up.
  const isPrivate = isIP(host) !== 0 && !isPublicAddress(host);
  if (isPrivate && !allowPrivate) return Promise.resolve(forbidden(host));
  const send = url.protocol === "https:" ? requestHttps : requestHttp;
  const outgoing = send(url, { method: "POST", headers, agent: false, lookup });
  const answer = statusOf(outgoing, url.protocol === "https:" ? "secureConnect" : "connect", clock);
  outgoing.end(body);
  return answer;
}

function forbidden(host: string): NoAnswer {
  return { why: new ForbiddenAddressError(host).message, isForbidden: true };
}

/** The status of the answer once the call is over, or why there is none. */
function statusOf(
  outgoing: ClientRequest,
  connected: "connect" | "secureConnect",
  clock: Clock,
): Promise<number | NoAnswer> {
  return new Promise((resolve) => {
    let status: number | undefined;
    let failure: NoAnswer | undefined;
    const cut = (): void => {
      failure = { why: "no answer before the timeout" };
      outgoing.destroy();
    };
    const cancelConnect = clock.after(connectMs, cut);
    const cancelAnswer = clock.after(answerMs, cut);
    outgoing.on("socket", (socket) => socket.once(connected, cancelConnect));
    outgoing.on("response", (response) => {
      status = response.statusCode;
      let bytes = 0;
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > answerBytesMax) cut();
      });
      // It was cut, by either side; the status is known.
      response.on("error", () => {});
    });
    // It ends with `close`, without an answer.
    outgoing.on("error", (error) => {
      const isForbidden = error instanceof ForbiddenAddressError;
      failure ??= { why: error.message, ...(isForbidden ? { isForbidden } : {}) };
    });
    outgoing.on("close", () => {
      cancelConnect();
      cancelAnswer();
      resolve(status ?? failure ?? { why: "the connection was closed" });
    });
  });
}
