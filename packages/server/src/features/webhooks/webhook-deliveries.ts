/** The outcomes of the webhooks of the caller's tenant, and how to send them again. */
import { type ErrorCode, limits } from "@codeq/protocol";
import type { TaskId } from "@codeq/queue";
import type { FailedDelivery, Redelivered, TaskDeliveries } from "../../core/broker/webhooks.ts";
import {
  type Answer,
  type Call,
  type Operation,
  type Refusal,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { type PageInput, pageLimitOf } from "../../edge/page-limit.ts";
import { parseInstant } from "../../edge/parse-instant.ts";
import { wholeId } from "../../edge/whole-id.ts";

export const getDeliveries: Operation<{ readonly id: string }, TaskDeliveries> = {
  name: "get_deliveries",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants", target: ({ id }) => id },
  run: deliveriesOf,
};

export const redeliverTask: Operation<{ readonly id: string }, TaskDeliveries> = {
  name: "redeliver_task",
  access: "admin",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: { of: "all", target: ({ id }) => id, detail: ({ id }) => id },
  run: async (server, call, input) => {
    const id = await wholeId(server, call, input.id);
    if (!id.ok) return id;
    const { tenantId } = call.identity;
    const [redelivered] = await server.queue.webhooks.redeliver(tenantId, [id.value]);
    const code = codeOf(redelivered);
    return code === undefined ? deliveriesOf(server, call, { id: id.value }) : refusal(code);
  },
};

async function deliveriesOf(
  server: Server,
  call: Call,
  input: { readonly id: string },
): Promise<Answer<TaskDeliveries>> {
  const id = await wholeId(server, call, input.id);
  if (!id.ok) return id;
  const { tenantId } = call.identity;
  const found = await server.queue.webhooks.deliveries({ tenantId, id: id.value });
  return found === undefined ? refusal("not_found") : { ok: true, value: found };
}

export interface ListFailedInput extends PageInput {
  /** RFC 3339, or empty for all that are known. */
  readonly since: string;
}

export interface FailedDeliveries {
  readonly failed: readonly FailedDelivery[];
  readonly next: string | undefined;
}

export const listFailedDeliveries: Operation<ListFailedInput, FailedDeliveries> = {
  name: "list_failed_deliveries",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants" },
  run: async ({ queue }, call, input) => {
    const limit = pageLimitOf(input);
    if (!limit.ok) return limit;
    const sinceMs = sinceOf(input.since);
    if (!sinceMs.ok) return sinceMs;
    if (input.after !== "" && !positionPattern.test(input.after)) {
      return refusal("invalid_argument", "invalid 'after' (give the 'next' of the page before)");
    }
    const wanted = { sinceMs: sinceMs.value, after: input.after, limit: limit.value };
    const page = await queue.webhooks.failed({ tenantId: call.identity.tenantId, ...wanted });
    return { ok: true, value: { failed: page.failed, next: page.next ?? undefined } };
  },
};

export interface RedeliverFailedInput {
  /** RFC 3339: given up at this moment or later. */
  readonly since: string;
  /** How the URL begins; empty for any. */
  readonly url: string;
  /** 0 for the default. */
  readonly limit: number;
  /** Counts, and sends nothing. */
  readonly isDryRun: boolean;
}

export interface RedeliveredFailed {
  readonly matched: number;
  readonly redelivered: number;
  readonly failed: readonly { readonly id: string; readonly code: ErrorCode }[];
  readonly hasMore: boolean;
}

const failedMax = 100;
/** So many are planned at a time. */
const pieceTasks = 200;

export const redeliverFailed: Operation<RedeliverFailedInput, RedeliveredFailed> = {
  name: "redeliver_failed",
  access: "admin",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: {
    of: "all",
    target: ({ since, url, isDryRun }) => `${isDryRun ? "dry run: " : ""}since ${since} ${url}`,
    detail: ({ matched, redelivered }) => `${redelivered} of ${matched} webhooks`,
  },
  run: async (server, call, input) => {
    const problem = problemOf(input);
    if (problem !== undefined) return problem;
    const sinceMs = sinceOf(input.since);
    if (!sinceMs.ok) return sinceMs;
    return { ok: true, value: await redeliverSince(server, call, input, sinceMs.value) };
  },
};

async function redeliverSince(
  { queue }: Server,
  { identity: { tenantId } }: Call,
  { url, limit, isDryRun }: RedeliverFailedInput,
  sinceMs: number,
): Promise<RedeliveredFailed> {
  const max = limit || limits.bulkLimitDefault;
  const failed: { readonly id: string; readonly code: ErrorCode }[] = [];
  let [matched, redelivered] = [0, 0];
  let after: string | null = "";
  while (after !== null && matched < max) {
    const wanted = { tenantId, sinceMs, after, limit: Math.min(pieceTasks, max - matched) };
    const page = await queue.webhooks.failed(wanted);
    const ids = page.failed.filter((each) => each.url.startsWith(url)).map(({ id }) => id);
    matched += ids.length;
    const answers = isDryRun ? [] : await queue.webhooks.redeliver(tenantId, ids);
    for (const [at, answer] of answers.entries()) {
      const code = codeOf(answer);
      if (code === undefined) redelivered += 1;
      else failed.push({ id: ids[at] as TaskId, code });
    }
    after = page.next;
  }
  return { matched, redelivered, failed: failed.slice(0, failedMax), hasMore: after !== null };
}

function problemOf({ since, url, limit }: RedeliverFailedInput): Refusal | undefined {
  if (since === "") {
    return refusal("invalid_argument", "'since' is missing (give the first moment, as RFC3339)");
  }
  if (url.length > limits.webhookCharsMax) {
    return refusal("invalid_argument", `'url' is longer than ${limits.webhookCharsMax}`);
  }
  const isFine = limit >= 0 && limit <= limits.bulkLimitMax;
  return isFine
    ? undefined
    : refusal("invalid_argument", `invalid 'limit' (1 to ${limits.bulkLimitMax})`);
}

const positionPattern = /^\d{1,16}\.[0-9a-f-]{36}$/;

function sinceOf(since: string): Answer<number> {
  if (since === "") return { ok: true, value: 0 };
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
