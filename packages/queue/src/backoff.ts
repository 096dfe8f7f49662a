/**
 * How long a task waits before its next attempt. Every answer is a whole number of seconds between
 * zero and the policy's ceiling, for any number of attempts. The randomness of the jittered
 * policies comes from the caller as one draw, so the same arguments always give the same delay.
 */
export type BackoffPolicy =
  | "fixed"
  | "linear"
  | "exponential"
  | "exp_equal_jitter"
  | "exp_full_jitter";

export interface RetryPolicy {
  readonly backoff: BackoffPolicy;
  /** A value of zero or less means one second. */
  readonly baseSeconds: number;
  /** A value of zero or less means no more than the base. */
  readonly maxSeconds: number;
}

export const backoffPolicies: readonly BackoffPolicy[] = [
  "fixed",
  "linear",
  "exponential",
  "exp_equal_jitter",
  "exp_full_jitter",
];

/** `attempts` counts the attempt that has just come back; `draw` is uniform in [0, 1). */
export function backoffSeconds(policy: RetryPolicy, attempts: number, draw: number): number {
  const base = baseOf(policy);
  const ceiling = ceilingSeconds(policy);
  switch (policy.backoff) {
    case "fixed":
      return atMost(ceiling, base);
    case "linear":
      return atMost(ceiling, base * Math.max(1, attempts));
    case "exponential":
      return atMost(ceiling, doubled(base, attempts));
    case "exp_equal_jitter": {
      const half = Math.floor(atMost(ceiling, doubled(base, attempts)) / 2);
      return half + drawUpTo(half, draw);
    }
    case "exp_full_jitter":
      return drawUpTo(atMost(ceiling, doubled(base, attempts)), draw);
  }
}

/** The longest delay the policy allows, which also bounds a delay that a worker asks for. */
export function ceilingSeconds(policy: RetryPolicy): number {
  return Math.floor(policy.maxSeconds > 0 ? policy.maxSeconds : baseOf(policy));
}

function baseOf(policy: RetryPolicy): number {
  return policy.baseSeconds > 0 ? policy.baseSeconds : 1;
}

/**
 * Doubling past the range of a number gives Infinity, not a negative or undefined value, and the
 * ceiling brings that back. This holds because the base is never zero.
 */
function doubled(base: number, attempts: number): number {
  return base * 2 ** Math.max(0, attempts);
}

function atMost(ceiling: number, seconds: number): number {
  return Math.floor(Math.min(seconds, ceiling));
}

/** A whole number from 0 to `top`, both included and all equally likely. */
function drawUpTo(top: number, draw: number): number {
  return Math.floor(draw * (top + 1));
}
