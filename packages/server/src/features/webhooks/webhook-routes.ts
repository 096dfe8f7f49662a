/** Routes with which administrators inspect webhooks and manage endpoints and secrets. */
import type { FailedDelivery, TaskDeliveries } from "../../core/broker/webhooks.ts";
import type { DeliveryTry } from "../../core/records/delivery-record.ts";
import type { FailingEndpoint } from "../../core/records/endpoint-record.ts";
import type { SigningSecret } from "../../core/records/signing-record.ts";
import { EnableEndpointBody, RedeliverBody, RotateSecretBody } from "../../edge/http/bodies.ts";
import type { BodyOf } from "../../edge/http/json-body.ts";
import type { JsonCodec } from "../../edge/http/json-codec.ts";
import { pageIn } from "../../edge/http/page-query.ts";
import { pageFields, textField } from "../../edge/http/query.ts";
import { json, route } from "../../edge/http/route.ts";
import {
  getDeliveries,
  listFailedDeliveries,
  redeliverFailed,
  redeliverTask,
} from "./webhook-deliveries.ts";
import { enableEndpoint, listEndpoints } from "./webhook-endpoints.ts";
import { listSecrets, revokeSecret, rotateSecret } from "./webhook-secrets.ts";

const tasks = "/v1/codeq/admin/tasks";
const base = "/v1/codeq/admin/webhooks";
const idParam = { id: "The id of the task, or the beginning or end of it if that is unique." };
const ofOneTask = ["not_found", "ambiguous_id"] as const;

export const webhookRoutes = [
  route({
    method: "GET",
    path: `${tasks}/:id/deliveries`,
    operation: getDeliveries,
    name: "getDeliveries",
    summary: "Show the delivery of the webhook of a task",
    params: idParam,
    refusals: ofOneTask,
    replies: { 200: { about: "The last tries, the oldest first.", schema: "Deliveries" } },
    input: ({ params }) => ({ ok: true, value: { id: params["id"] ?? "" } }),
    reply: (deliveries, codec) => json(JSON.stringify(deliveriesFields(deliveries, codec))),
  }),
  route({
    method: "POST",
    path: `${tasks}/:id/redeliver`,
    operation: redeliverTask,
    name: "redeliverTask",
    summary: "Send the result of a task to its webhook once more",
    about: "It gets all its tries again. The body is the same and so is its `webhook-id`.",
    params: idParam,
    refusals: [...ofOneTask, "no_webhook", "not_ended", "endpoint_disabled"],
    replies: { 200: { about: "The webhook is under way.", schema: "Deliveries" } },
    input: ({ params }) => ({ ok: true, value: { id: params["id"] ?? "" } }),
    reply: (deliveries, codec) => json(JSON.stringify(deliveriesFields(deliveries, codec))),
  }),
  route({
    method: "GET",
    path: `${base}/failed`,
    operation: listFailedDeliveries,
    name: "listFailedDeliveries",
    summary: "List webhooks that were given up",
    about: "One that is sent again leaves the list, and so does one whose task is removed.",
    query: {
      since: textField(
        "RFC 3339 time: only webhooks given up at or after this time (default: all).",
      ),
      ...pageFields,
    },
    replies: { 200: { about: "A page of them, the earliest first.", schema: "FailedDeliveries" } },
    input: (request) => {
      const { since } = request.query;
      return { ok: true, value: { ...pageIn(request), since: String(since ?? "") } };
    },
    reply: ({ failed, next }, codec) =>
      json(JSON.stringify({ failed: failed.map((each) => failedFields(each, codec)), next })),
  }),
  route({
    method: "POST",
    path: `${base}/redeliver`,
    operation: redeliverFailed,
    name: "redeliverFailed",
    summary: "Send all webhooks again that were given up since a time",
    replies: { 200: { about: "What was done.", schema: "Redelivered" } },
    body: RedeliverBody,
    input: ({ body }) => {
      const { since, url, limit, dryRun } = body as BodyOf<typeof RedeliverBody>;
      const rest = { url: url ?? "", limit: limit ?? 0, isDryRun: dryRun ?? false };
      return { ok: true, value: { since, ...rest } };
    },
    reply: (done) => json(JSON.stringify(done)),
  }),
  route({
    method: "GET",
    path: `${base}/endpoints`,
    operation: listEndpoints,
    name: "listEndpoints",
    summary: "List endpoints of webhooks that fail or are disabled",
    replies: { 200: { about: "Endpoints by their URLs.", schema: "Endpoints" } },
    input: () => ({ ok: true, value: undefined }),
    reply: (endpoints, codec) =>
      json(JSON.stringify({ endpoints: endpoints.map((each) => endpointFields(each, codec)) })),
  }),
  route({
    method: "POST",
    path: `${base}/endpoints/enable`,
    operation: enableEndpoint,
    name: "enableEndpoint",
    summary: "Let webhooks go to an endpoint again",
    about: "Webhooks that were given up meanwhile are not sent by this; redeliver them.",
    refusals: ["endpoint_not_found"],
    replies: { 200: { about: "It is not disabled.", schema: "EnabledEndpoint" } },
    body: EnableEndpointBody,
    input: ({ body }) => ({ ok: true, value: body as BodyOf<typeof EnableEndpointBody> }),
    reply: ({ url }) => json(JSON.stringify({ url, disabled: false })),
  }),
  route({
    method: "GET",
    path: `${base}/secrets`,
    operation: listSecrets,
    name: "listWebhookSecrets",
    summary: "List the secrets that sign webhooks",
    about: "Without any, those of the configuration sign.",
    replies: { 200: { about: "Without their texts, the newest first.", schema: "Secrets" } },
    input: () => ({ ok: true, value: undefined }),
    reply: (secrets, codec) =>
      json(JSON.stringify({ secrets: secrets.map((each) => secretFields(each, codec)) })),
  }),
  route({
    method: "POST",
    path: `${base}/secrets`,
    operation: rotateSecret,
    name: "rotateWebhookSecret",
    summary: "Create a secret that signs webhooks from now on",
    about: "The secret before it signs as well until the overlap has passed.",
    replies: { 201: { about: "The secret with its text.", schema: "CreatedSecret" } },
    body: RotateSecretBody,
    bodyOptional: true,
    input: ({ body }) => {
      const { overlapSeconds } = (body ?? {}) as BodyOf<typeof RotateSecretBody>;
      return { ok: true, value: { overlapSeconds } };
    },
    reply: (secret, codec) => {
      const fields = { ...secretFields(secret, codec), secret: secret.secret };
      return json(JSON.stringify(fields), 201);
    },
  }),
  route({
    method: "DELETE",
    path: `${base}/secrets/:id`,
    operation: revokeSecret,
    name: "revokeWebhookSecret",
    summary: "Revoke a secret that signs webhooks",
    params: { id: "The id of the secret." },
    refusals: ["secret_not_found"],
    replies: { 204: { about: "The secret no longer signs webhooks." } },
    input: ({ params }) => ({ ok: true, value: { id: params["id"] ?? "" } }),
    reply: () => ({ status: 204, body: undefined }),
  }),
] as const;

function deliveriesFields(deliveries: TaskDeliveries, codec: JsonCodec): object {
  const { id, url, state, why, total, tries, nextMs } = deliveries;
  return {
    taskId: id,
    ...(url === "" ? {} : { url }),
    state,
    ...(why === "" ? {} : { error: why }),
    ...(nextMs === null || state === "pending" ? {} : { nextTryAt: codec.instant(nextMs) }),
    total,
    tries: tries.map((each) => tryFields(each, codec)),
  };
}

function tryFields({ atMs, status, durationMs, why }: DeliveryTry, codec: JsonCodec): object {
  const error = why === "" ? {} : { error: why };
  return { at: codec.instant(atMs), status, durationMs, ...error };
}

function failedFields(failed: FailedDelivery, codec: JsonCodec): object {
  const { id, command, url, atMs, why, total, last } = failed;
  const lastTry = last === null ? {} : { lastTry: tryFields(last, codec) };
  return { taskId: id, command, url, failedAt: codec.instant(atMs), error: why, total, ...lastTry };
}

function endpointFields(endpoint: FailingEndpoint, codec: JsonCodec): object {
  const { url, sinceMs, disabledMs, why } = endpoint;
  const since = { failingSince: codec.instant(sinceMs), error: why };
  const disabledAt = disabledMs === undefined ? undefined : codec.instant(disabledMs);
  return { url, disabled: disabledMs !== undefined, ...since, disabledAt };
}

function secretFields(secret: SigningSecret, codec: JsonCodec): object {
  const { id, createdMs, createdBy, untilMs } = secret;
  return {
    id,
    ...(createdMs === 0 ? {} : { createdAt: codec.instant(createdMs), createdBy }),
    ...(untilMs === undefined ? {} : { validUntil: codec.instant(untilMs) }),
  };
}
