/** The answer to a verb that was not carried out. */
import { FaultError } from "@codeq/engine";
import type { ErrorCode } from "@codeq/protocol";
import type { Exceeded } from "../config/quotas.ts";
import type {
  CostAboveBurst,
  KeyReused,
  NotAllowedPriority,
  Refused,
  Waiter,
} from "../core/broker/verbs.ts";
import type { MaybePromise } from "../core/maybe-promise.ts";
import { type Answer, type Refusal, refusal, type Server } from "./operation.ts";

export function refusalOf(server: Pick<Server, "events">, why: Refused): Refusal {
  if (why instanceof FaultError) return refusal(codeOf(why));
  if (why.code === "quota_exceeded") return overQuota(server, why.exceeded);
  if (why.code === "idempotency_key_reused") return keyReused(why);
  if (why.code === "unique_key_held") return keyHeld(why);
  if (why.code === "cost_above_burst") return tooExpensive(why);
  return why.code === "priority_not_allowed" ? notAllowed(why) : refusal(why.code);
}

function keyReused({ code, key, taskId }: KeyReused): Refusal {
  const text =
    `idempotency key reused: ${JSON.stringify(key)} belongs to task ${taskId}, which has another command or ` +
    "payload; use another key, or the idempotency mode first to get that task";
  return { ...refusal(code, text), details: { key, taskId } };
}

function keyHeld({ code, key, taskId }: KeyReused): Refusal {
  const text =
    `the unique key ${JSON.stringify(key)} is held by task ${taskId}; wait for its end, or choose ` +
    "return, replace, latest or cancel for unique.on";
  return { ...refusal(code, text), details: { key, taskId } };
}

function tooExpensive({ code, cost, burst }: CostAboveBurst): Refusal {
  const text = `the task costs ${cost} units and the rate allows ${burst} at once`;
  return refusal(code, `${text}; split the task, or raise the burst of the rate`);
}

export function notAllowed({ code, priority, tiers }: NotAllowedPriority): Refusal {
  return refusal(
    code,
    `priority ${priority} is not allowed by the topic; allowed: ${tiers.join(", ")}`,
  );
}

function codeOf(fault: FaultError): ErrorCode {
  switch (fault.code) {
    case "disk_full":
      return "disk_full";
    case "closed":
      return "shutting_down";
    case "corrupt":
      return "data_damaged";
    case "not_leader":
      return "no_leader";
    case "unknown":
      return "outcome_unknown";
    case "behind":
    case "storage_failed":
    case "locked":
    case "format":
      return "storage_failed";
  }
}

/** Codes of a storage that accepts no writes; the rules never refuse with them. */
const faultCodes: ReadonlySet<ErrorCode> = new Set([
  "disk_full",
  "no_leader",
  "outcome_unknown",
  "shutting_down",
  "storage_failed",
]);

function isFault(answer: Answer<unknown>): answer is Refusal {
  return !answer.ok && faultCodes.has(answer.code);
}

const unknownCodes: ReadonlySet<ErrorCode> = new Set([
  "outcome_unknown",
  "shutting_down",
  "storage_failed",
]);

/** Whether the change may have been kept although it was refused. */
export function isUnknown(answer: Answer<unknown>): boolean {
  return !answer.ok && unknownCodes.has(answer.code);
}

/** The answer of a verb as a promise; `ask` returns a refusal that needs no verb. */
export function answerOf<T>(
  server: Pick<Server, "events">,
  ask: (waiter: Waiter<T>) => Refusal | undefined,
): Promise<Answer<T>> {
  return new Promise((resolve) => {
    const refused = ask({
      durable: (value) => resolve({ ok: true, value }),
      refused: (why) => resolve(refusalOf(server, why)),
    });
    if (refused !== undefined) resolve(refused);
  });
}

/** Other calls free the quota at any time, so no better moment is known. */
const retryAfterMsDefault = 1000;

const adviceAbout: Partial<Record<Exceeded["quota"], string>> = {
  queues: "; use commands that have tasks, or have an operator raise the quota",
  lanes: "; use lanes that have tasks, or have an operator raise the quota",
};

/** The refusal of a call that exceeds a quota: the quota, its limit and the current value. */
export function overQuota(
  { events }: Pick<Server, "events">,
  exceeded: Exceeded,
  retryAfterMs: number = retryAfterMsDefault,
): Refusal {
  const { quota, limit, current } = exceeded;
  events.quotaExceeded(quota);
  const text = `quota exceeded: ${quota} is ${current}, the limit is ${limit}${adviceAbout[quota] ?? ""}`;
  return {
    ...refusal("quota_exceeded", text),
    details: { quota, limit, current, retryAfterSeconds: wholeSeconds(retryAfterMs) },
    retryAfterMs,
  };
}

/** For `Retry-After`: at least one second. */
export function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000));
}

/**
 * The answers to the items of a batch. Some items may be durable when the storage refuses the rest, so each
 * item has its own answer; when no item was accepted, the whole batch is refused.
 */
export async function answerEach<T>(
  parts: readonly MaybePromise<Answer<T>>[],
): Promise<Answer<readonly Answer<T>[]>> {
  const value = await Promise.all(parts);
  const [first] = value;
  return first !== undefined && isFault(first) && value.every(isFault)
    ? first
    : { ok: true, value };
}
