/**
 * Time, as everything in the server sees it. The wall clock is for what users see; durations are
 * measured with the monotonic clock, so that a step of the wall clock cannot shorten them.
 */
export interface Clock {
  nowMs(): number;
  monotonicMs(): number;
  /** Runs once after the delay; returns how to cancel it. */
  after(delayMs: number, run: () => void): () => void;
}

/** Longer delays overflow the timer and fire at once. */
const timerMsMax = 2 ** 31 - 1;

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after: (delayMs, run) => {
    const timer = setTimeout(run, Math.min(Math.max(delayMs, 0), timerMsMax));
    return () => clearTimeout(timer);
  },
};
