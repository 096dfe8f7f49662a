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
  /** The time in which an empty bucket becomes full. */
  readonly refillMs: number;
  readonly remaining: number;
  /** The time until one more token is available; 0 if the bucket is full. */
  readonly nextMs: number;
}

/** A rate of one a minute refills one unit a millisecond. */
const unitsPerToken = 60_000;

export class TokenBucket {
  readonly policy: BucketPolicy;
  #units: number;
  /** The time up to which the bucket has been refilled. */
  #atMs: number;
  /** The retry time of the last caller that was refused and queued. */
  #lastRetryMs = Number.NEGATIVE_INFINITY;

  constructor(policy: BucketPolicy, nowMs: number) {
    this.policy = policy;
    this.#units = policy.burst * unitsPerToken;
    this.#atMs = Math.floor(nowMs);
  }

  /** A new bucket with the same number of tokens. */
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

  /** The caller has checked that the tokens are available. */
  take(tokens: number, nowMs: number): void {
    assert(tokens <= this.available(nowMs), "only what is there is taken");
    this.#units -= tokens * unitsPerToken;
  }

  /**
   * Returns tokens that were not used. Tokens that were refilled since the take count as returned already: a full
   * bucket could not have taken them, and they must not be available twice.
   */
  giveBack(tokens: number, takenMs: number, nowMs: number): void {
    this.#refill(nowMs);
    const refilled = (this.#atMs - Math.floor(takenMs)) * this.policy.perMinute;
    const left = Math.max(tokens * unitsPerToken - refilled, 0);
    this.#units = Math.min(this.#units + left, this.policy.burst * unitsPerToken);
  }

  /** The state of the bucket, for callers that it limits. */
  state(nowMs: number): BucketState {
    const { burst, perMinute } = this.policy;
    const remaining = this.available(nowMs);
    const refillMs = Math.ceil((burst * unitsPerToken) / perMinute);
    const nextMs = remaining === burst ? 0 : this.waitMs(remaining + 1, nowMs);
    return { burst, refillMs, remaining, nextMs };
  }

  /** The time until so many tokens are available; Infinity if there can never be so many. */
  waitMs(tokens: number, nowMs: number): number {
    if (tokens > this.policy.burst) return Number.POSITIVE_INFINITY;
    this.#refill(nowMs);
    const missing = Math.max(tokens * unitsPerToken - this.#units, 0);
    return Math.ceil(missing / this.policy.perMinute);
  }

  /** The time until a token is available for a caller that retries after all callers refused before it. */
  queuedWaitMs(nowMs: number): number {
    const soonestMs = nowMs + this.waitMs(1, nowMs);
    this.#lastRetryMs = Math.max(
      soonestMs,
      this.#lastRetryMs + unitsPerToken / this.policy.perMinute,
    );
    return Math.ceil(this.#lastRetryMs - nowMs);
  }

  #refill(nowMs: number): void {
    const atMs = Math.floor(nowMs);
    if (atMs <= this.#atMs) return;
    const units = this.#units + (atMs - this.#atMs) * this.policy.perMinute;
    this.#units = Math.min(units, this.policy.burst * unitsPerToken);
    this.#atMs = atMs;
  }
}

const bucketsMax = 65_536;
const sweepAtMin = 1024;
/** The time until a sweep that removed nothing is repeated. */
const sweepAgainMs = 1000;

/**
 * One bucket for each of many callers, in bounded memory. A bucket that is full again holds no information,
 * so it can be dropped; that happens when new buckets are added, not by a timer. When the maximum number of
 * buckets is reached and none is full, new callers share one bucket: a caller that invents names gets no
 * fresh bucket, and no caller loses an existing one.
 */
export class Buckets {
  readonly #byKey: Map<string, TokenBucket> = new Map();
  readonly #shared: Map<BucketPolicy, TokenBucket> = new Map();
  readonly #max: number;
  #sweepAt: number;
  #notBeforeMs = Number.NEGATIVE_INFINITY;

  constructor(max: number = bucketsMax) {
    this.#max = max;
    this.#sweepAt = Math.min(sweepAtMin, max);
  }

  get size(): number {
    return this.#byKey.size + this.#shared.size;
  }

  of(key: string, policy: BucketPolicy, nowMs: number): TokenBucket {
    const found = this.#byKey.get(key);
    if (found !== undefined) return found;
    if (this.#byKey.size >= this.#sweepAt && nowMs >= this.#notBeforeMs) this.#sweep(nowMs);
    if (this.#byKey.size >= this.#max) return this.#sharedOf(policy, nowMs);
    // The caller may have used the shared bucket, and must not get more tokens by moving out of it.
    const bucket = this.#shared.get(policy)?.twin(nowMs) ?? new TokenBucket(policy, nowMs);
    this.#byKey.set(key, bucket);
    return bucket;
  }

  #sharedOf(policy: BucketPolicy, nowMs: number): TokenBucket {
    const bucket = this.#shared.get(policy) ?? new TokenBucket(policy, nowMs);
    this.#shared.set(policy, bucket);
    return bucket;
  }

  #sweep(nowMs: number): void {
    for (const [key, bucket] of this.#byKey) {
      if (bucket.isFull(nowMs)) this.#byKey.delete(key);
    }
    for (const [policy, bucket] of this.#shared) {
      if (bucket.isFull(nowMs)) this.#shared.delete(policy);
    }
    // Twice the number in use, so a sweep costs no more than the additions since the last one.
    this.#sweepAt = Math.min(Math.max(this.#byKey.size * 2, sweepAtMin), this.#max);
    if (this.#byKey.size >= this.#max) this.#notBeforeMs = nowMs + sweepAgainMs;
  }
}
