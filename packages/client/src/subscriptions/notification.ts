/** What a subscriber is told, out of the request in which it came. */
import { CodeqError } from "../codeq-error.ts";
import { type VerifyOptions, verifySignature, type WebhookRequest } from "../verify-webhook.ts";

/** A queue has work. */
export interface Notification {
  /** The same when the notification is sent again. */
  readonly id: string;
  /** The name of the task. */
  readonly task: string;
  /** How many tasks were ready when it was sent. */
  readonly queueDepth: number;
  readonly subscriptionId: string;
  readonly sentAt: Date;
}

/**
 * Checks the signature of an availability notification and returns what it says, for receivers of their own;
 * `client.subscriptions.listen` does this by itself. Throws a `CodeqError` with the code `webhook_refused`.
 *
 * ```ts
 * const { task, queueDepth } = verifyNotification({ body, headers }, { secret: "whsec_..." });
 * ```
 */
export function verifyNotification(request: WebhookRequest, options: VerifyOptions): Notification {
  verifySignature(request, options);
  return notificationOf(request);
}

/** Without looking at the signature. */
export function notificationOf({ body }: Pick<WebhookRequest, "body">): Notification {
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  const fields = JSON.parse(text) as Readonly<Record<string, unknown>>;
  const { notificationId, eventType, queueDepth, subscriptionId, sentAt } = fields;
  if (typeof notificationId !== "string" || typeof eventType !== "string") {
    throw new CodeqError("webhook_refused", "the webhook is refused: it is no notification");
  }
  return {
    id: notificationId,
    task: eventType,
    queueDepth: Number(queueDepth),
    subscriptionId: String(subscriptionId),
    sentAt: new Date(String(sentAt)),
  };
}
