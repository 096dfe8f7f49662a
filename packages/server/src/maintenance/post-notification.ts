/** The HTTP request of an availability notification: body and signature, sent with the client of callbacks. */

import { isPublicAddress } from "../public-addresses.ts";
import { noTracing } from "../telemetry/tracing/tracing.ts";
import { utcSeconds } from "../timestamps.ts";
import { createLookup } from "./callback-lookup.ts";
import type { AvailableWork, PostNotification } from "./notify-subscribers.ts";
import { type CallbackOptions, postTraced } from "./post-callback.ts";
import { signatureHeaders } from "./webhook-signature.ts";

/** Where a subscriber asks for the tasks. */
const claimUrl = "/v1/codeq/tasks/claim";

export function createPostNotification(
  options: Omit<CallbackOptions, "timestamps">,
): PostNotification {
  const isAllowed = options.allowPrivateNetworks ? () => true : isPublicAddress;
  const lookup = createLookup({ isAllowed });
  const tracing = options.tracing ?? noTracing;
  return (work, secrets) => {
    const nowMs = options.clock.nowMs();
    const body = notificationBody(work, nowMs);
    const headers = {
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(body)),
      ...signatureHeaders(options, {
        tenantId: work.tenantId,
        own: secrets,
        id: work.notificationId,
        timestampSeconds: Math.floor(nowMs / 1000),
        body,
      }),
    };
    return postTraced(work.url, tracing.notifying(work), { ...options, headers, body, lookup });
  };
}

export function notificationBody(work: AvailableWork, nowMs: number): string {
  const { eventType, queueDepth, notificationId, subscriptionId } = work;
  const sentAt = utcSeconds(nowMs);
  const fields = { eventType, available: true, queueDepth, claimUrl, sentAt };
  return JSON.stringify({ ...fields, notificationId, subscriptionId });
}
