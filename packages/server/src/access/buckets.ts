/**
 * One bucket for each of many, in bounded memory. A bucket that is full again says nothing that a new
 * one would not say, so it can go at any time: that is done when new ones have come, not by a timer.
 * When there are as many as may be and none is full, those who come share one: whoever makes up
 * names to get a fresh bucket gets none, and nobody who has one loses it.
 */
import { type BucketPolicy, TokenBucket } from "./token-bucket.ts";

const bucketsMax = 65_536;
const sweepAtMin = 1024;
/** How soon a sweep that found no room is tried again. */
const sweepAgainMs = 1000;

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
    // It may be one of those who shared a bucket, and must not get more for having to.
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
    // Twice as many as are in use: the next sweep costs no more than what has come until then.
    this.#sweepAt = Math.min(Math.max(this.#byKey.size * 2, sweepAtMin), this.#max);
    if (this.#byKey.size >= this.#max) this.#notBeforeMs = nowMs + sweepAgainMs;
  }
}
