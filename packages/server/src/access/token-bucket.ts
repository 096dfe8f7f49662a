/**
 * A token bucket: it starts full, refills at a constant rate and never holds more than its burst. In any
 * period no more is taken than the burst plus what was refilled in the period.
 *
 * Tokens are counted in units of which a whole number is refilled every millisecond, so nothing is gained or
 * lost by rounding.
 */
import assert from "node:assert/strict";

export interface BucketPolicy {
  readonly perMinute: number;
  readonly burst: number;
}

export interface BucketState {
  readonly burst: number;
  /** How long an empty one takes to be full. */
  readonly refillMs: number;
  readonly remaining: number;
  /** When there is one more; 0 when it is full. */
  readonly nextMs: number;
}

/** A rate of one a minute refills one unit a millisecond. */
const unitsPerToken = 60_000;

export class TokenBucket {
  readonly policy: BucketPolicy;
  #units: number;
  /** Up to when it has been refilled. */
  #atMs: number;
  /** When the last of those comes back who were sent away to wait in line. */
  #lineMs = Number.NEGATIVE_INFINITY;

  constructor(policy: BucketPolicy, nowMs: number) {
    this.policy = policy;
    this.#units = policy.burst * unitsPerToken;
    this.#atMs = Math.floor(nowMs);
  }

  /** Another one that holds as much as this one does. */
  twin(nowMs: number): TokenBucket {
    this.#refill(nowMs);
    const twin = new TokenBucket(this.policy, nowMs);
    twin.#units = this.#units;
    return twin;
  }

  /** Whole tokens that can be taken now. */
  available(nowMs: number): number {
    this.#refill(nowMs);
    return Math.floor(this.#units / unitsPerToken);
  }

  isFull(nowMs: number): boolean {
    return this.available(nowMs) === this.policy.burst;
  }

  /** The caller has seen that they are there. */
  take(tokens: number, nowMs: number): void {
    assert(tokens <= this.available(nowMs), "only what is there is taken");
    this.#units -= tokens * unitsPerToken;
  }

  /**
   * Puts back what was taken and not used. What has been refilled since counts as put back already:
   * a full bucket would have had no room for it, and nobody is to get it twice.
   */
  giveBack(tokens: number, takenMs: number, nowMs: number): void {
    this.#refill(nowMs);
    const refilled = (this.#atMs - Math.floor(takenMs)) * this.policy.perMinute;
    const left = Math.max(tokens * unitsPerToken - refilled, 0);
    this.#units = Math.min(this.#units + left, this.policy.burst * unitsPerToken);
  }

  /** How it stands, for those who count in it. */
  state(nowMs: number): BucketState {
    const { burst, perMinute } = this.policy;
    const remaining = this.available(nowMs);
    const refillMs = Math.ceil((burst * unitsPerToken) / perMinute);
    const nextMs = remaining === burst ? 0 : this.waitMs(remaining + 1, nowMs);
    return { burst, refillMs, remaining, nextMs };
  }

  /** How long until so many are there; Infinity when they never will be. */
  waitMs(tokens: number, nowMs: number): number {
    if (tokens > this.policy.burst) return Number.POSITIVE_INFINITY;
    this.#refill(nowMs);
    const missing = Math.max(tokens * unitsPerToken - this.#units, 0);
    return Math.ceil(missing / this.policy.perMinute);
  }

  /** How long until there is a token for one who comes back behind all who were told before. */
  waitInLineMs(nowMs: number): number {
    const soonestMs = nowMs + this.waitMs(1, nowMs);
    this.#lineMs = Math.max(soonestMs, this.#lineMs + unitsPerToken / this.policy.perMinute);
    return Math.ceil(this.#lineMs - nowMs);
  }

  #refill(nowMs: number): void {
    const atMs = Math.floor(nowMs);
    if (atMs <= this.#atMs) return;
    const units = this.#units + (atMs - this.#atMs) * this.policy.perMinute;
    this.#units = Math.min(units, this.policy.burst * unitsPerToken);
    this.#atMs = atMs;
  }
}
