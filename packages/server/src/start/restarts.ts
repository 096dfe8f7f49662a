/** Restarts a thread that has ended unexpectedly: after a delay, and only a limited number of times. */
import type { Clock } from "../clock.ts";

const startsMax = 5;
const startsWithinMs = 60_000;
const startAfterMs = 250;

export class Restarts {
  readonly #clock: Clock;
  readonly #startedMs: number[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  started(): void {
    this.#startedMs.push(this.#clock.monotonicMs());
  }

  /** False when it was started too often lately, and will not be started again. */
  startAgain(start: () => void): boolean {
    const nowMs = this.#clock.monotonicMs();
    const recent = this.#startedMs.filter((atMs) => nowMs - atMs < startsWithinMs).length;
    if (recent >= startsMax) return false;
    this.#clock.after(startAfterMs, start);
    return true;
  }
}
