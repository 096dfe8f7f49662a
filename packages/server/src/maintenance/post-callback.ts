/**
 * The HTTP side of result callbacks: body, signature and a client that does not follow redirects and,
 * unless it is allowed to, does not connect to addresses inside the network it runs in.
 */
import { createHmac } from "node:crypto";
import { type LookupAddress, lookup } from "node:dns";
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import type { Result, Task } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import type { Timestamps } from "../timestamps.ts";
import type { PostCallback } from "./deliver-webhooks.ts";
import { isPublicAddress } from "./public-addresses.ts";

export interface CallbackOptions {
  readonly secret: string;
  readonly allowPrivateNetworks: boolean;
  readonly clock: Clock;
  readonly timestamps: Timestamps;
}

const timeoutMs = 15_000;

export function createPostCallback(options: CallbackOptions): PostCallback {
  return (task, result) => {
    const body = callbackBody(task, result, options.timestamps);
    const headers: Record<string, string> = {
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(body)),
      ...sign(options, body),
    };
    if (task.traceParent !== "") headers["traceparent"] = task.traceParent;
    if (task.traceState !== "") headers["tracestate"] = task.traceState;
    return post(task.webhook, { headers, body, allowPrivate: options.allowPrivateNetworks });
  };
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

function sign({ secret, clock }: CallbackOptions, body: string): Record<string, string> {
  if (secret.trim() === "") return {};
  const timestamp = String(Math.floor(clock.nowMs() / 1000));
  const signature = createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex");
  return { "x-codeq-timestamp": timestamp, "x-codeq-signature": signature };
}

function post(
  target: string,
  call: { headers: Record<string, string>; body: string; allowPrivate: boolean },
): Promise<number | undefined> {
  const url = new URL(target);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  // An address that is written out is connected to without being looked up.
  if (!call.allowPrivate && isIP(host) !== 0 && !isPublicAddress(host))
    return Promise.resolve(undefined);
  const send = url.protocol === "https:" ? requestHttps : requestHttp;
  return new Promise((resolve) => {
    const outgoing = send(url, {
      method: "POST",
      headers: call.headers,
      signal: AbortSignal.timeout(timeoutMs),
      agent: false,
      ...(call.allowPrivate ? {} : { lookup: publicLookup }),
    });
    outgoing.on("response", (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    outgoing.on("error", () => resolve(undefined));
    outgoing.end(call.body);
  });
}

/** Looks a name up and hands on only public addresses, which are then the ones connected to. */
const publicLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
    if (error !== null) {
      callback(error, "");
      return;
    }
    const open = addresses.filter(({ address }) => isPublicAddress(address));
    const [first] = open;
    if (first === undefined) {
      callback(new Error(`${hostname} is not a public address`), "");
      return;
    }
    if (options.all) callback(null, open);
    else callback(null, first.address, first.family);
  });
};
