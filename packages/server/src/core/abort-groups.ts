/**
 * Calls back when signals abort, with one listener for each signal. A signal looks through all of its
 * listeners whenever one is removed, so that thousands of listeners of one signal would stall the process.
 */

/** The reason of an abort. Without a reason every abort makes an error with a stack. */
export const endOfWait = "the wait has ended";

export class AbortGroups {
  readonly #bySignal: Map<AbortSignal, Set<() => void>> = new Map();

  /** Runs once when the signal aborts, or now if it has; returns how to take it back. */
  add(signal: AbortSignal, run: () => void): () => void {
    if (signal.aborted) {
      run();
      return () => {};
    }
    const group = this.#bySignal.get(signal) ?? this.#begin(signal);
    group.add(run);
    return () => {
      if (group.delete(run) && group.size === 0) this.#end(signal);
    };
  }

  #begin(signal: AbortSignal): Set<() => void> {
    const group = new Set<() => void>();
    this.#bySignal.set(signal, group);
    signal.addEventListener("abort", this.#aborted, { once: true });
    return group;
  }

  #end(signal: AbortSignal): void {
    this.#bySignal.delete(signal);
    signal.removeEventListener("abort", this.#aborted);
  }

  readonly #aborted = ({ target }: Event): void => {
    const signal = target as AbortSignal;
    const group = this.#bySignal.get(signal);
    this.#bySignal.delete(signal);
    for (const run of [...(group ?? [])]) run();
  };
}
