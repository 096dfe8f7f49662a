/** Counts the times in which commits are held back because the kv does not keep up. */
import type { EngineClock } from "./engine-options.ts";

export class WriteStalls {
  #count = 0;
  readonly #clock: EngineClock;
  #pastMs = 0;
  /** Undefined while nothing is held back. */
  #sinceMs: number | undefined;

  constructor(clock: EngineClock) {
    this.#clock = clock;
  }

  begin(): void {
    if (this.#sinceMs !== undefined) return;
    this.#count += 1;
    this.#sinceMs = this.#clock.monotonicMs();
  }

  end(): void {
    this.#pastMs += this.#currentMs();
    this.#sinceMs = undefined;
  }

  get count(): number {
    return this.#count;
  }

  /** Includes a stall that has not ended. */
  get seconds(): number {
    return (this.#pastMs + this.#currentMs()) / 1000;
  }

  #currentMs(): number {
    return this.#sinceMs === undefined ? 0 : this.#clock.monotonicMs() - this.#sinceMs;
  }
}
