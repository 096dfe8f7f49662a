/**
 * Whether an endpoint is worth a connection. Only silence counts: any answer, also an error, shows that
 * somebody is there.
 *
 *   closed     calls pass. Too many without an answer in a row: open
 *   open       no call passes until a moment. Then: half open
 *   half open  one call passes. Answered: closed. Not answered: open, for twice as long
 */
export const silentMax = 3;
export const openMsMin = 1000;
export const openMsMax = 30_000;

export class CircuitBreaker {
  #silent = 0;
  #untilMs = Number.NEGATIVE_INFINITY;

  /** No call passes before this moment; in the past when the breaker is not open. */
  get untilMs(): number {
    return this.#untilMs;
  }

  get isClosed(): boolean {
    return this.#silent < silentMax;
  }

  answered(): void {
    this.#silent = 0;
    this.#untilMs = Number.NEGATIVE_INFINITY;
  }

  /** A call got no answer; whether the breaker is open now. */
  unanswered(nowMs: number): boolean {
    this.#silent += 1;
    if (this.isClosed) return false;
    // Calls that began together end together; they are one observation.
    if (nowMs < this.#untilMs) return true;
    const doublings = Math.min(this.#silent - silentMax, 10);
    this.#untilMs = nowMs + Math.min(openMsMin * 2 ** doublings, openMsMax);
    return true;
  }

  /** Nothing passes for a while, for a reason that says nothing about the endpoint. */
  hold(untilMs: number): void {
    this.#untilMs = Math.max(this.#untilMs, untilMs);
  }
}
