/** Timers of an engine, cancelled together when the engine stops. */
import type { EngineClock } from "./engine-options.ts";
import type { Log } from "./log/log.ts";

export class Timers {
  readonly #clock: EngineClock;
  readonly #onError: (error: unknown) => void;
  readonly #cancels: Set<() => void> = new Set();
  #isStopped = false;

  constructor(clock: EngineClock, onError: (error: unknown) => void) {
    this.#clock = clock;
    this.#onError = onError;
  }

  after(delayMs: number, run: () => Promise<void>): void {
    if (this.#isStopped) return;
    const cancel = this.#clock.after(delayMs, () => {
      this.#cancels.delete(cancel);
      run().catch(this.#onError);
    });
    this.#cancels.add(cancel);
  }

  /** Cancels all timers, and ignores later ones. */
  stop(): void {
    this.#isStopped = true;
    for (const cancel of this.#cancels) cancel();
  }

  /** Syncs the log at every interval in which it has grown; a slow sync does not delay the next one. */
  syncEvery(intervalMs: number, log: Log): void {
    let syncedIndex = log.lastIndex;
    const next = (delayMs: number): void =>
      this.after(delayMs, async () => {
        const dueMs = this.#clock.monotonicMs() + intervalMs;
        const index = log.lastIndex;
        if (index > syncedIndex) await log.sync();
        syncedIndex = index;
        next(Math.max(0, dueMs - this.#clock.monotonicMs()));
      });
    next(intervalMs);
  }
}
