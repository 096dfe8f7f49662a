/** Webhooks of tasks: their deliveries, the endpoints that fail, and the secrets that sign. */

import { endpoints, errorCode, pageOf, pageQuery } from "../../contract/endpoint.ts";
import {
  count,
  flag,
  instant,
  list,
  object,
  only,
  raw,
  text,
  whole,
} from "../../contract/shape.ts";
import { limits } from "../../limits.ts";

export const WebhookBody = object(
  {
    taskId: text(),
    eventType: text("The name of the task."),
    status: text("", { oneOf: ["COMPLETED", "FAILED"] }),
    result: raw("What the worker returned; null when the task failed."),
    error: text("Empty when there was none."),
    artifacts: list(object({ name: text(), url: text() })),
    completedAt: instant(),
  },
  { about: "What is posted to the `webhook` of a task." },
);

export const DeliveryTry = object(
  {
    at: instant("When it began."),
    status: whole("Of the answer, if there was one.", { isOptional: true }),
    durationMs: count(),
    error: text("Why it failed.", { as: "why", none: "" }),
  },
  { about: "One try to post a result." },
);

export const Deliveries = object(
  {
    taskId: text("", { as: "id" }),
    url: text("", { none: "" }),
    state: text("`none` without a webhook, `pending` before the task has ended.", {
      oneOf: ["none", "pending", "waiting", "delivered", "failed"],
    }),
    error: text("Why it was given up.", { as: "why", none: "" }),
    nextTryAt: instant("", { as: "nextMs", isOptional: true }),
    total: count("How often it was tried in all."),
    tries: list(DeliveryTry, "The last tries, the oldest first."),
  },
  { name: "Deliveries", about: "The delivery of the webhook of a task." },
);

export const FailedDelivery = object(
  {
    taskId: text("", { as: "id" }),
    command: text(),
    url: text(),
    failedAt: instant("When it was given up.", { as: "atMs" }),
    error: text("", { as: "why" }),
    total: count("How often it was tried in all."),
    lastTry: object(DeliveryTry.fields, { as: "last", isOptional: true }),
  },
  { about: "A webhook that was given up." },
);

const RedeliverBody = object(
  {
    since: text("RFC 3339 time: webhooks given up at or after this time.", { isRequired: true }),
    url: text("Only those whose URL begins like this.", {
      max: limits.webhookCharsMax,
      none: "",
      refusal: `'url' is longer than ${limits.webhookCharsMax}`,
    }),
    limit: whole(`How many to send at most (default: ${limits.bulkLimitDefault}).`, {
      min: 0,
      max: limits.bulkLimitMax,
      rule: `1 to ${limits.bulkLimitMax}`,
      none: 0,
    }),
    dryRun: flag("Only count the webhooks; send nothing.", { as: "isDryRun", none: false }),
  },
  { isClosed: true },
);

export const Redelivered = object(
  {
    matched: count("Number of webhooks that match."),
    redelivered: count(),
    failed: list(
      object({ id: text(), code: errorCode }),
      "The first of those that were not sent, with the reason.",
    ),
    hasMore: flag("Whether more webhooks may match."),
  },
  { name: "Redelivered", about: "What came of sending webhooks once more." },
);

export const FailingEndpoint = object(
  {
    url: text("Without a query."),
    disabled: flag(),
    failingSince: instant("", { as: "sinceMs" }),
    error: text("", { as: "why" }),
    disabledAt: instant("", { isOptional: true }),
  },
  { about: "An endpoint that fails or is disabled." },
);

const secret = {
  id: text(),
  createdAt: instant("", { none: 0 }),
  createdBy: text("", { none: "" }),
  validUntil: instant("When it ceases to sign.", { as: "untilMs", isOptional: true }),
};

export const WebhookSecret = object(secret, { about: "A secret that signs webhooks." });
export const CreatedWebhookSecret = object(
  { ...secret, secret: text("The secret itself; it is not shown again.") },
  { name: "CreatedSecret", about: "A new secret, with its text." },
);

const params = {
  id: text("The id of the task, or the beginning or end of it if that is unique."),
};

export const webhooks = endpoints({
  getDeliveries: {
    key: "GET /admin/tasks/:id/deliveries",
    access: "viewer",
    summary: "Show the delivery of the webhook of a task",
    params,
    refusals: ["not_found", "ambiguous_id"],
    replies: { 200: { about: "The last tries, the oldest first.", shape: Deliveries } },
  },
  redeliverTask: {
    key: "POST /admin/tasks/:id/redeliver",
    access: "admin",
    summary: "Send the result of a task to its webhook once more",
    about: "It gets all its tries again. The body is the same and so is its `webhook-id`.",
    params,
    refusals: ["not_found", "ambiguous_id", "no_webhook", "not_ended", "endpoint_disabled"],
    replies: { 200: { about: "The webhook is under way.", shape: Deliveries } },
  },
  listFailedDeliveries: {
    key: "GET /admin/webhooks/failed",
    access: "viewer",
    summary: "List webhooks that were given up",
    about: "One that is sent again leaves the list, and so does one whose task is removed.",
    query: {
      since: text("RFC 3339 time: only webhooks given up at or after this time (default: all).", {
        none: "",
      }),
      ...pageQuery(/^\d{1,16}\.[0-9a-f-]{36}$/),
    },
    replies: {
      200: {
        about: "A page of them, the earliest first.",
        shape: pageOf("FailedDeliveries", "failed", FailedDelivery),
      },
    },
  },
  redeliverFailed: {
    key: "POST /admin/webhooks/redeliver",
    access: "admin",
    summary: "Send all webhooks again that were given up since a time",
    body: RedeliverBody,
    replies: { 200: { about: "What was done.", shape: Redelivered } },
  },
  listEndpoints: {
    key: "GET /admin/webhooks/endpoints",
    operation: "list_webhook_endpoints",
    access: "viewer",
    summary: "List endpoints of webhooks that fail or are disabled",
    replies: {
      200: {
        about: "Endpoints by their URLs.",
        shape: object({ endpoints: list(FailingEndpoint) }, { name: "Endpoints" }),
      },
    },
  },
  enableEndpoint: {
    key: "POST /admin/webhooks/endpoints/enable",
    operation: "enable_webhook_endpoint",
    access: "admin",
    summary: "Let webhooks go to an endpoint again",
    about: "Webhooks that were given up meanwhile are not sent by this; redeliver them.",
    body: object(
      { url: text("The URL of the endpoint; its query is ignored.", { isRequired: true }) },
      { isClosed: true },
    ),
    refusals: ["endpoint_not_found"],
    replies: {
      200: {
        about: "It is not disabled.",
        shape: object({ url: text(), disabled: only(false) }, { name: "EnabledEndpoint" }),
      },
    },
  },
  listWebhookSecrets: {
    key: "GET /admin/webhooks/secrets",
    access: "admin",
    summary: "List the secrets that sign webhooks",
    about: "Without any, those of the configuration sign.",
    replies: {
      200: {
        about: "Without their texts, the newest first.",
        shape: object({ secrets: list(WebhookSecret) }, { name: "Secrets" }),
      },
    },
  },
  rotateWebhookSecret: {
    key: "POST /admin/webhooks/secrets",
    access: "admin",
    summary: "Create a secret that signs webhooks from now on",
    about: "The secret before it signs as well until the overlap has passed.",
    body: object(
      {
        overlapSeconds: whole(
          `Seconds in which the secret before it signs as well; default: ${limits.secretOverlapSecondsDefault}.`,
          {
            min: 0,
            max: limits.secretOverlapSecondsMax,
            none: limits.secretOverlapSecondsDefault,
          },
        ),
      },
      { isClosed: true },
    ),
    bodyOptional: true,
    replies: { 201: { about: "The secret with its text.", shape: CreatedWebhookSecret } },
  },
  revokeWebhookSecret: {
    key: "DELETE /admin/webhooks/secrets/:id",
    access: "admin",
    summary: "Revoke a secret that signs webhooks",
    params: { id: text("The id of the secret.") },
    refusals: ["secret_not_found"],
    replies: { 204: { about: "The secret no longer signs webhooks." } },
  },
});
