/** For receivers of webhooks: whether a request is from the server, unchanged and recent. */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { WebhookBody } from "./api-types.ts";
import { systemClock } from "./clock.ts";
import { CodeqError } from "./codeq-error.ts";

/** A result as it is posted to the `webhook` of a task. */
export interface WebhookMessage extends Omit<WebhookBody, "completedAt"> {
  /** The same whenever this result is posted again; receivers tell repeats by it. */
  readonly id: string;
  readonly completedAt: Date;
}

/** The request as it came. */
export interface WebhookRequest {
  /** Byte for byte; a body that was parsed and written again has another signature. */
  readonly body: string | Uint8Array;
  readonly headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** What `verifyWebhook` has to know. */
export interface VerifyOptions {
  /** One of the secrets that the server signs with, or all that may be valid while they change. */
  readonly secret: string | readonly string[];
  /** How old a request may be, and how far ahead the clock of the server; 300 by default. */
  readonly toleranceSeconds?: number;
  /** Milliseconds since 1970; for tests. */
  readonly nowMs?: number;
}

const standardPrefix = "whsec_";
const toleranceSecondsDefault = 300;

/**
 * Checks the signature of a webhook and returns what it says. Throws a `CodeqError` with the code
 * `webhook_refused` when the request is not from the server, was changed, or is too old.
 *
 * ```ts
 * const { taskId, status } = verifyWebhook({ body, headers }, { secret: "whsec_..." });
 * ```
 */
export function verifyWebhook(request: WebhookRequest, options: VerifyOptions): WebhookMessage {
  return messageOf(verifySignature(request, options), request.body);
}

/** The id of a message that the server has signed. */
export function verifySignature(request: WebhookRequest, options: VerifyOptions): string {
  const id = headerOf(request, "webhook-id");
  const timestamp = headerOf(request, "webhook-timestamp");
  const given = headerOf(request, "webhook-signature");
  const secrets = typeof options.secret === "string" ? [options.secret] : options.secret;
  if (secrets.length === 0 || secrets.includes("")) {
    throw new CodeqError(
      "invalid_option",
      "secret: expected the secret that the server signs with",
    );
  }
  assertRecent(timestamp, options);
  const made = secrets.map((secret) =>
    createHmac("sha256", keyOf(secret)).update(`${id}.${timestamp}.`).update(request.body).digest(),
  );
  const isSigned = given
    .split(" ")
    .filter((each) => each.startsWith("v1,"))
    .map((each) => Buffer.from(each.slice(3), "base64"))
    .some((each) => made.some((one) => one.length === each.length && timingSafeEqual(one, each)));
  if (!isSigned) throw refused("no signature fits: the secret is another, or the body was changed");
  return id;
}

function headerOf({ headers }: WebhookRequest, name: string): string {
  const value = headers instanceof Headers ? headers.get(name) : headers[name];
  const text = typeof value === "string" ? value : value?.[0];
  if (text === undefined || text === "") throw refused(`the header ${name} is missing`);
  return text;
}

function assertRecent(timestamp: string, options: VerifyOptions): void {
  const { toleranceSeconds = toleranceSecondsDefault, nowMs = systemClock.nowMs() } = options;
  const isNumber = /^\d{1,12}$/.test(timestamp);
  if (isNumber && Math.abs(nowMs / 1000 - Number(timestamp)) <= toleranceSeconds) return;
  throw refused(`it was signed more than ${toleranceSeconds} seconds from now`);
}

function keyOf(secret: string): Buffer {
  return secret.startsWith(standardPrefix)
    ? Buffer.from(secret.slice(standardPrefix.length), "base64")
    : Buffer.from(secret);
}

/** The server has signed the body, so it has the form that the server writes. */
function messageOf(id: string, body: string | Uint8Array): WebhookMessage {
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  const message: WebhookBody = JSON.parse(text);
  return { ...message, id, completedAt: new Date(message.completedAt) };
}

function refused(why: string): CodeqError {
  return new CodeqError("webhook_refused", `the webhook is refused: ${why}`);
}
