/** The clock of this package; tests replace it with one that they move. */
export interface Clock {
  /** Milliseconds since 1970. */
  nowMs(): number;
  /** For durations: never steps. */
  monotonicMs(): number;
  /** Runs once after the delay; returns how to cancel it. */
  after(delayMs: number, run: () => void, options?: TimerOptions): () => void;
}

export interface TimerOptions {
  /** The process does not stay alive for it. */
  readonly background?: boolean;
}

/** Longer delays overflow the timer and fire at once. */
const timerMsMax = 2 ** 31 - 1;

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after: (delayMs, run, { background = false } = {}) => {
    const timer = setTimeout(run, Math.min(Math.max(delayMs, 0), timerMsMax));
    if (background) timer.unref();
    return () => clearTimeout(timer);
  },
};
