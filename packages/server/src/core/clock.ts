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
  nowMs: oncePerCallback(() => Date.now()),
  monotonicMs: oncePerCallback(() => performance.now()),
  after: (delayMs, run) => {
    const timer = setTimeout(run, Math.min(Math.max(delayMs, 0), timerMsMax));
    return () => clearTimeout(timer);
  },
};

/**
 * A reading of the system's clock takes longer (100 ns and more) than most of what is done with it, and
 * a task asks for the time about fifteen times. One reading serves everything that runs in the same
 * callback of the event loop.
 */
function oncePerCallback(read: () => number): () => number {
  let value = 0;
  let isFresh = false;
  const forget = (): void => {
    isFresh = false;
  };
  return () => {
    if (!isFresh) {
      value = read();
      isFresh = true;
      queueMicrotask(forget);
    }
    return value;
  };
}
