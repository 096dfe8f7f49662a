/**
 * Detects time in which the process did not run: it was stopped, its machine was paused, or something
 * blocked the event loop. While it is needed, the watch reads the clock at short intervals; code that is
 * about to act on the passage of time makes it read the clock first. A gap is a stall.
 *
 * States: off until `wake` finds that it is needed; on until a reading finds that it is not.
 */
import type { Clock } from "../clock.ts";

export interface StallWatchParts {
  readonly clock: Clock;
  readonly isNeeded: () => boolean;
  /** The process did not run for about so long, up to now. */
  readonly onStall: (stalledMs: number) => void;
}

const betweenLooksMs = 200;
/** Timers are as late as this on a busy machine. */
const lateMsMax = 200;

export class StallWatch implements Disposable {
  readonly #parts: StallWatchParts;
  /** When the process was last seen to run; undefined while the watch is off. */
  #seenMs: number | undefined;
  #cancel = (): void => {};

  constructor(parts: StallWatchParts) {
    this.#parts = parts;
  }

  wake(): void {
    if (this.#seenMs !== undefined || !this.#parts.isNeeded()) return;
    this.#seenMs = this.#parts.clock.monotonicMs();
    this.#plan();
  }

  look(): void {
    if (this.#seenMs === undefined) return;
    const nowMs = this.#parts.clock.monotonicMs();
    const stalledMs = nowMs - this.#seenMs - betweenLooksMs;
    this.#seenMs = nowMs;
    if (stalledMs > lateMsMax) this.#parts.onStall(stalledMs);
  }

  [Symbol.dispose](): void {
    this.#cancel();
    this.#seenMs = undefined;
  }

  #plan(): void {
    this.#cancel = this.#parts.clock.after(betweenLooksMs, () => {
      this.look();
      if (this.#parts.isNeeded()) this.#plan();
      else this.#seenMs = undefined;
    });
  }
}
