/** The buckets that one call counts in. A call takes from all of them or from none. */
import type { Clock } from "../clock.ts";
import type { BucketState, TokenBucket } from "./token-bucket.ts";

export interface LimitState extends BucketState {
  readonly name: string;
}

export interface NamedBucket {
  /** As callers see it. */
  readonly name: string;
  readonly bucket: TokenBucket;
}

export class Allowance {
  readonly #buckets: readonly NamedBucket[];
  readonly #clock: Clock;
  #takenMs = 0;

  constructor(buckets: readonly NamedBucket[], clock: Clock) {
    this.#buckets = buckets;
    this.#clock = clock;
  }

  state(): LimitState[] {
    const nowMs = this.#clock.monotonicMs();
    return this.#buckets.map(({ name, bucket }) => ({ name, ...bucket.state(nowMs) }));
  }

  /** The most that can ever be taken at once. */
  get burst(): number {
    return Math.min(...this.#buckets.map(({ bucket }) => bucket.policy.burst));
  }

  /** Takes so many; otherwise how long until they are there, Infinity when they never will be. */
  take(tokens: number): number {
    const nowMs = this.#clock.monotonicMs();
    const waitMs = this.#most((bucket) => bucket.waitMs(tokens, nowMs));
    if (waitMs === 0) this.#takeNow(tokens, nowMs);
    return waitMs;
  }

  /** Takes as many as there are, at most so many. */
  takeUpTo(tokens: number): number {
    const nowMs = this.#clock.monotonicMs();
    let taken = tokens;
    for (const { bucket } of this.#buckets) taken = Math.min(taken, bucket.available(nowMs));
    this.#takeNow(taken, nowMs);
    return taken;
  }

  /** Puts back what was taken last and not used. */
  giveBack(tokens: number): void {
    if (tokens <= 0) return;
    const nowMs = this.#clock.monotonicMs();
    for (const { bucket } of this.#buckets) bucket.giveBack(tokens, this.#takenMs, nowMs);
  }

  /** For one who was refused and is willing to come back: when, behind all who were told before. */
  waitInLineMs(): number {
    const nowMs = this.#clock.monotonicMs();
    return this.#most((bucket) => bucket.waitInLineMs(nowMs));
  }

  #takeNow(tokens: number, nowMs: number): void {
    for (const { bucket } of this.#buckets) bucket.take(tokens, nowMs);
    this.#takenMs = nowMs;
  }

  #most(of: (bucket: TokenBucket) => number): number {
    return this.#buckets.reduce((most, { bucket }) => Math.max(most, of(bucket)), 0);
  }
}
