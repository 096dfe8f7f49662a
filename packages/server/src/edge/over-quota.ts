/** The refusal of a call that exceeds a quota: the quota, its limit and the current value. */
import type { Exceeded } from "../config/quotas.ts";
import { type Refusal, refusal, type Server } from "./operation.ts";

/** Other calls free the quota at any time, so no better moment is known. */
const retryAfterMsDefault = 1000;

export function overQuota(
  { events }: Pick<Server, "events">,
  exceeded: Exceeded,
  retryAfterMs: number = retryAfterMsDefault,
): Refusal {
  const { quota, limit, current } = exceeded;
  events.quotaExceeded(quota);
  return {
    ...refusal("quota_exceeded", `quota exceeded: ${quota} is ${current}, the limit is ${limit}`),
    details: { quota, limit, current, retryAfterSeconds: wholeSeconds(retryAfterMs) },
    retryAfterMs,
  };
}

/** As clients wait: at least one. */
export function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000));
}
