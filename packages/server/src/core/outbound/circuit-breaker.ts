/**
 * Decides whether an endpoint is worth a connection, after calls that failed in a row:
 *
 *   closed     calls pass. Too many failures in a row: open
 *   open       no call passes until a moment. Then: half open
 *   half open  one call passes. Success: closed. Failure: open, for longer than before
 */
export interface BreakerLimits {
  /** The number of failures in a row that opens the breaker. */
  readonly failuresMax: number;
  /** How long it stays open the first time, the second time and so on; the last one repeats. */
  readonly waitsMs: readonly number[];
}

export class CircuitBreaker {
  readonly #limits: BreakerLimits;
  #failures = 0;
  #untilMs = Number.NEGATIVE_INFINITY;

  constructor(limits: BreakerLimits) {
    this.#limits = limits;
  }

  /** No call passes before this moment; in the past when the breaker is not open. */
  get untilMs(): number {
    return this.#untilMs;
  }

  get isClosed(): boolean {
    return this.#failures < this.#limits.failuresMax;
  }

  succeeded(): void {
    this.#failures = 0;
    this.#untilMs = Number.NEGATIVE_INFINITY;
  }

  /** Returns whether the breaker is open now. */
  failed(nowMs: number): boolean {
    const { failuresMax, waitsMs } = this.#limits;
    this.#failures += 1;
    if (this.isClosed) return false;
    // Calls that began together end together; they are one observation.
    if (nowMs < this.#untilMs) return true;
    const waitMs = waitsMs[this.#failures - failuresMax] ?? waitsMs.at(-1) ?? 0;
    this.#untilMs = nowMs + waitMs;
    return true;
  }

  /** Lets no call pass for a while, for a reason that says nothing about the endpoint. */
  hold(untilMs: number): void {
    this.#untilMs = Math.max(this.#untilMs, untilMs);
  }
}
