/**
 * The webhooks of the caller's tenant: their deliveries and how to send them again, endpoints that fail or are
 * disabled, and the secrets that sign. A new secret signs at once; the previous one signs beside it for a while, so that
 * receivers can switch. If the tenant had no secret of its own, webhooks are signed with the secret of the
 * configuration for the same time.
 */
import { type ErrorCode, limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import type { TaskId } from "@codeq/queue";
import type { Redelivered, TaskDeliveries } from "../../core/broker/webhooks.ts";
import { validNow } from "../../core/records/signing-record.ts";
import { parseInstant } from "../../core/timestamps.ts";
import { bind, type InputOf } from "../../edge/bind.ts";
import { type Answer, type Call, refusal, type Server } from "../../edge/operation.ts";
import { wholeId } from "../../edge/task-filter-input.ts";

export const getDeliveries = bind(api.webhooks.getDeliveries, {
  run: deliveriesOf,
});

export const redeliverTask = bind(api.webhooks.redeliverTask, {
  run: async (server, call, input): Promise<Answer<TaskDeliveries>> => {
    const id = await wholeId(server, call, input.id);
    if (!id.ok) return id;
    const { tenantId } = call.identity;
    const [redelivered] = await server.broker.webhooks.redeliver(tenantId, [id.value]);
    const code = codeOf(redelivered);
    return code === undefined ? deliveriesOf(server, call, { id: id.value }) : refusal(code);
  },
  audit: { detail: ({ id }) => id },
});

async function deliveriesOf(
  server: Server,
  call: Call,
  input: { readonly id: string },
): Promise<Answer<TaskDeliveries>> {
  const id = await wholeId(server, call, input.id);
  if (!id.ok) return id;
  const { tenantId } = call.identity;
  const found = await server.broker.webhooks.deliveries({ tenantId, id: id.value });
  return found === undefined ? refusal("not_found") : { ok: true, value: found };
}

export const listFailedDeliveries = bind(api.webhooks.listFailedDeliveries, {
  run: async ({ broker }, { identity: { tenantId } }, { since, after, limit }) => {
    const sinceMs = since === "" ? { ok: true as const, value: 0 } : sinceOf(since);
    if (!sinceMs.ok) return sinceMs;
    const wanted = { tenantId, sinceMs: sinceMs.value, after, limit };
    return { ok: true, value: await broker.webhooks.failed(wanted) };
  },
});

const failedMax = 100;
/** The number of webhooks that are planned at a time. */
const pieceTasks = 200;

export const redeliverFailed = bind(api.webhooks.redeliverFailed, {
  run: async (server, call, input) => {
    if (input.since === "") {
      return refusal("invalid_argument", "'since' is missing (give the first moment, as RFC3339)");
    }
    const sinceMs = sinceOf(input.since);
    if (!sinceMs.ok) return sinceMs;
    return { ok: true, value: await redeliverSince(server, call, input, sinceMs.value) };
  },
  audit: {
    target: ({ since, url, isDryRun }) => `${isDryRun ? "dry run: " : ""}since ${since} ${url}`,
    detail: ({ matched, redelivered }) => `${redelivered} of ${matched} webhooks`,
  },
});

async function redeliverSince(
  { broker }: Server,
  { identity: { tenantId } }: Call,
  { url, limit, isDryRun }: InputOf<typeof api.webhooks.redeliverFailed>,
  sinceMs: number,
) {
  const max = limit || limits.bulkLimitDefault;
  const failed: { readonly id: string; readonly code: ErrorCode }[] = [];
  let [matched, redelivered] = [0, 0];
  let after: string | undefined = "";
  while (after !== undefined && matched < max) {
    const wanted = { tenantId, sinceMs, after, limit: Math.min(pieceTasks, max - matched) };
    const page = await broker.webhooks.failed(wanted);
    const ids = page.failed.filter((each) => each.url.startsWith(url)).map(({ id }) => id);
    matched += ids.length;
    const answers = isDryRun ? [] : await broker.webhooks.redeliver(tenantId, ids);
    for (const [at, answer] of answers.entries()) {
      const code = codeOf(answer);
      if (code === undefined) redelivered += 1;
      else failed.push({ id: ids[at] as TaskId, code });
    }
    after = page.next;
  }
  return { matched, redelivered, failed: failed.slice(0, failedMax), hasMore: after !== undefined };
}

function sinceOf(since: string): Answer<number> {
  const value = parseInstant(since);
  return value === undefined || value < 0
    ? refusal("invalid_argument", "invalid 'since' (use RFC3339)")
    : { ok: true, value };
}

function codeOf(redelivered: Redelivered | undefined): ErrorCode | undefined {
  if (redelivered === "planned") return undefined;
  if (redelivered === undefined || redelivered === "task_unknown") return "not_found";
  return redelivered;
}

export const listEndpoints = bind(api.webhooks.listEndpoints, {
  run: async ({ broker }, call) => {
    const found = await broker.webhooks.endpoints(call.identity.tenantId);
    const endpoints = found.map((each) => ({ ...each, disabled: each.disabledMs !== undefined }));
    return { ok: true, value: { endpoints: endpoints.sort((a, b) => (a.url < b.url ? -1 : 1)) } };
  },
});

export const enableEndpoint = bind(api.webhooks.enableEndpoint, {
  run: async ({ broker }, call, { url }) => {
    if (url.length > limits.webhookCharsMax || !URL.canParse(url)) {
      return refusal("invalid_argument", "invalid 'url' (give the URL of an endpoint)");
    }
    const isEnabled = await broker.webhooks.enable(call.identity.tenantId, url);
    if (!isEnabled) return refusal("endpoint_not_found");
    return { ok: true, value: { url, disabled: false as const } };
  },
  audit: { target: ({ url }) => url },
});

const secretBytes = 32;
const idBytes = 8;

export const rotateWebhookSecret = bind(api.webhooks.rotateWebhookSecret, {
  run: async (server, call, { overlapSeconds }) => {
    const { broker, clock } = server;
    const { tenantId, subject: createdBy } = call.identity;
    const nowMs = Math.floor(clock.nowMs());
    const overlapUntilMs = nowMs + overlapSeconds * 1000;
    const secret = {
      id: `whk_${drawn(server, idBytes).toString("hex")}`,
      secret: `whsec_${drawn(server, secretBytes).toString("base64")}`,
      createdMs: nowMs,
      createdBy,
      untilMs: undefined,
    };
    await broker.webhooks.changeSecrets(tenantId, { kind: "rotate", secret, overlapUntilMs });
    return { ok: true, value: secret };
  },
  audit: { detail: ({ id }) => id },
});

/** The secrets that sign now, the newest first. */
export const listWebhookSecrets = bind(api.webhooks.listWebhookSecrets, {
  run: async ({ broker, clock }, call) => {
    const secrets = await broker.webhooks.secrets(call.identity.tenantId);
    return { ok: true, value: { secrets: validNow(secrets, clock.nowMs()) } };
  },
});

/** Without any secret of the tenant's own, that of the configuration signs. */
export const revokeWebhookSecret = bind(api.webhooks.revokeWebhookSecret, {
  run: async (server, call, { id }) => {
    const { tenantId } = call.identity;
    const isKnown = await server.broker.webhooks.changeSecrets(tenantId, { kind: "revoke", id });
    return isKnown ? { ok: true, value: undefined } : refusal("secret_not_found");
  },
});

function drawn({ randomBytes }: Server, bytes: number): Buffer {
  const into = Buffer.alloc(bytes);
  randomBytes(into);
  return into;
}
