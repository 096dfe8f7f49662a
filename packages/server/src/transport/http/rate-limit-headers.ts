/**
 * How near a caller is to its limits, in the fields of the IETF draft for rate limits (revision 10 and
 * later): `RateLimit-Policy` lists what is allowed, `RateLimit` what is left of it.
 *
 *   q  the burst            w  seconds in which it is refilled
 *   r  what is left         t  seconds until there is more; not sent when it is full
 */
import type { LimitState } from "../../access/limiter.ts";
import { wholeSeconds } from "../../operations/over-quota.ts";

/** `retryAfterSeconds` of a refusal is when there will be enough for what was refused. */
export function rateLimitHeaders(
  limits: readonly LimitState[],
  retryAfterSeconds?: number,
): Record<string, string> {
  if (limits.length === 0) return {};
  const policies = limits.map(
    ({ name, burst, refillMs }) => `"${name}";q=${burst};w=${wholeSeconds(refillMs)}`,
  );
  const states = limits.map(({ name, remaining, nextMs }) => {
    const seconds = retryAfterSeconds ?? (nextMs === 0 ? 0 : wholeSeconds(nextMs));
    return `"${name}";r=${remaining}${seconds === 0 ? "" : `;t=${seconds}`}`;
  });
  return { "ratelimit-policy": policies.join(", "), ratelimit: states.join(", ") };
}
