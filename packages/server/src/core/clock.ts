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

/** Delays that are counted together end together, although they are not set at the same instant. */
const sharedStepMs = 20;

/**
 * When to look again at what is looked at about every `everyMs`: at moments that all such timers share, so that an idle
 * process wakes up once for all of them. The delay is between a half and one and a half of `everyMs`.
 */
export function untilSharedMs(clock: Pick<Clock, "monotonicMs">, everyMs: number): number {
  const leftMs = everyMs - (clock.monotonicMs() % everyMs);
  const delayMs = leftMs < everyMs / 2 ? leftMs + everyMs : leftMs;
  return Math.round(delayMs / sharedStepMs) * sharedStepMs;
}

/** A wall clock that differs by more than this from the time that has passed is not believed at once. */
const stepMsMax = 5 * 60_000;
/** A clock that was set is believed after it has kept its new time for this long. */
const beliefMs = 60_000;

/**
 * A clock that does not follow a large step of the wall clock at once: for decisions that cannot be taken back, such as what
 * retention deletes. During a step it goes on by the monotonic clock; a step that is taken back within a minute
 * has no effect.
 */
export function steadyClock(clock: Clock): Clock {
  // Two numbers instead of an object: a task asks for the time about fifteen times.
  let lastMs = clock.nowMs();
  let lastMonotonicMs = clock.monotonicMs();
  let step: { readonly byMs: number; readonly sinceMs: number } | undefined;
  const nowMs = (): number => {
    const wallMs = clock.nowMs();
    const monotonicMs = clock.monotonicMs();
    const expectedMs = lastMs + monotonicMs - lastMonotonicMs;
    const byMs = wallMs - expectedMs;
    if (Math.abs(byMs) > stepMsMax) {
      if (step === undefined || Math.abs(byMs - step.byMs) > stepMsMax) {
        step = { byMs, sinceMs: monotonicMs };
      }
      if (monotonicMs - step.sinceMs < beliefMs) return Math.floor(expectedMs);
    }
    step = undefined;
    lastMs = wallMs;
    lastMonotonicMs = monotonicMs;
    return wallMs;
  };
  return {
    nowMs,
    monotonicMs: () => clock.monotonicMs(),
    after: (delayMs, run) => clock.after(delayMs, run),
  };
}

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
