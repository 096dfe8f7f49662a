/**
 * One bucket for each of many callers, in bounded memory. A bucket that is full again holds no information,
 * so it can be dropped; that happens when new buckets are added, not by a timer. When the maximum number of
 * buckets is reached and none is full, new callers share one bucket: a caller that invents names gets no
 * fresh bucket, and nobody loses an existing one.
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
