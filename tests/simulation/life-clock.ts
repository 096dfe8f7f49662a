/**
 * The clock as one process sees it. Its monotonic time starts anew with the process, its wall time
 * has whole milliseconds, and its timers keep their time about as well as those of Node do: cut to
 * whole milliseconds, and late when the process was busy. When the process ends, its timers do too.
 */
import type { SimClock, SimRandom } from "@codeq/simulated";
import type { Clock } from "../../packages/server/src/core/clock.ts";

const lateChance = 0.1;
const lateMsMax = 4;

export class LifeClock implements Clock {
  readonly #clock: SimClock;
  readonly #random: SimRandom;
  readonly #originMs: number;
  readonly #cancels = new Set<() => void>();
  #isAlive = true;

  constructor(clock: SimClock, random: SimRandom) {
    this.#clock = clock;
    this.#random = random;
    this.#originMs = clock.monotonicMs() - 20;
  }

  nowMs(): number {
    return Math.floor(this.#clock.nowMs());
  }

  monotonicMs(): number {
    return this.#clock.monotonicMs() - this.#originMs;
  }

  after(delayMs: number, run: () => void): () => void {
    if (!this.#isAlive) return () => {};
    const isLate = this.#random.next() < lateChance;
    const lateMs = isLate ? this.#random.next() * lateMsMax : 0;
    const cancelTimer = this.#clock.after(Math.max(1, Math.floor(delayMs)) + lateMs, () => {
      this.#cancels.delete(cancel);
      run();
    });
    const cancel = (): void => {
      this.#cancels.delete(cancel);
      cancelTimer();
    };
    this.#cancels.add(cancel);
    return cancel;
  }

  kill(): void {
    this.#isAlive = false;
    for (const cancel of [...this.#cancels]) cancel();
  }
}
