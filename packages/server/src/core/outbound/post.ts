/**
 * The HTTP client for URLs that tenants chose. It signs the body, follows no redirects and, unless allowed,
 * does not connect to private addresses. A request takes a bounded time, and little more than the status of
 * the answer is read.
 */
import { type ClientRequest, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import type { TenantId } from "@codeq/queue";
import type { Config } from "../../config/settings.ts";
import type { TracedPost } from "../../telemetry/tracing/tracing.ts";
import type { Clock } from "../clock.ts";
import { createLookup, ForbiddenAddressError } from "./lookup.ts";
import { isPublicAddress } from "./public-addresses.ts";
import { type ConfiguredSecrets, signatureHeaders } from "./signature.ts";

export interface Message {
  readonly tenantId: TenantId;
  readonly url: string;
  /** The same with every try, and no other message has it. */
  readonly id: string;
  readonly body: string;
  /** The tenant's own secrets; an empty one stands for those of the configuration, and so do none. */
  readonly secrets: readonly string[];
  /** The span of the request, which lasts until the answer is there. */
  readonly traced: TracedPost;
}

/** The status of the answer, or why there is none. */
export type Answer = number | NoAnswer;

export interface NoAnswer {
  readonly why: string;
  /** Nothing was sent: the URL cannot be used. */
  readonly isUnsent?: true;
  /** Nothing was sent, and nothing will be: the address is not allowed. */
  readonly isForbidden?: true;
}

export type Post = (message: Message) => Promise<Answer>;

/** The time until the connection is open, name lookup and TLS included. */
const connectMs = 3000;
const answerMs = 15_000;
/** What is read of an answer before the connection is cut. */
const answerBytesMax = 64 * 1024;

export function createPost({
  config,
  clock,
}: {
  readonly config: ConfiguredSecrets & Pick<Config, "webhookAllowPrivateNetworks">;
  readonly clock: Clock;
}): Post {
  const isAllowed = config.webhookAllowPrivateNetworks ? () => true : isPublicAddress;
  const lookup = createLookup({ isAllowed });
  return async (message) => {
    const { url, body, traced } = message;
    const timestampSeconds = Math.floor(clock.nowMs() / 1000);
    const { traceParent, traceState } = traced;
    const headers = {
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(body)),
      ...signatureHeaders(config, { ...message, timestampSeconds }),
      ...(traceParent === "" ? {} : { traceparent: traceParent }),
      ...(traceState === "" ? {} : { tracestate: traceState }),
    };
    let answer: Answer | undefined;
    try {
      answer = await send(new URL(url), { headers, body, lookup, isAllowed, clock });
    } finally {
      traced.end(typeof answer === "number" ? answer : undefined);
    }
    return answer;
  };
}

/** However sending goes wrong, it is a try without an answer. */
export async function answerTo(post: () => Promise<Answer | undefined>): Promise<Answer> {
  try {
    return (await post()) ?? { why: "there was no answer" };
  } catch (error) {
    return { why: String(error), isUnsent: true };
  }
}

export function isSuccess(answer: Answer): boolean {
  return typeof answer === "number" && answer >= 200 && answer < 300;
}

export function whyOf(answer: Answer): string {
  return typeof answer === "number" ? `the answer was ${answer}` : answer.why;
}

interface SendOptions {
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly lookup: LookupFunction;
  readonly isAllowed: (address: string) => boolean;
  readonly clock: Clock;
}

function send(url: URL, { headers, body, lookup, isAllowed, clock }: SendOptions): Promise<Answer> {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  // An address that is written out is connected to without being looked up.
  if (isIP(host) !== 0 && !isAllowed(host)) {
    return Promise.resolve(noAnswer(new ForbiddenAddressError(host)));
  }
  const isTls = url.protocol === "https:";
  const request = isTls ? requestHttps : requestHttp;
  const outgoing = request(url, { method: "POST", headers, agent: false, lookup });
  const answer = answerOf(outgoing, isTls ? "secureConnect" : "connect", clock);
  outgoing.end(body);
  return answer;
}

function noAnswer(error: Error): NoAnswer {
  const why = error.message;
  return error instanceof ForbiddenAddressError ? { why, isForbidden: true } : { why };
}

/** The answer once the call is over. */
function answerOf(
  outgoing: ClientRequest,
  connected: "connect" | "secureConnect",
  clock: Clock,
): Promise<Answer> {
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
      failure ??= noAnswer(error);
    });
    outgoing.on("close", () => {
      cancelConnect();
      cancelAnswer();
      resolve(status ?? failure ?? { why: "the connection was closed" });
    });
  });
}
