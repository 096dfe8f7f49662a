/**
 * The requests to stop this process, from its first moment on: SIGTERM, SIGINT, and the end of the process
 * that launched it, which holds the other end of a channel. Resolves with the first of them. A further
 * request makes `again` end the process at once.
 */
/** Copies of one signal arrive together: from the terminal, and again from npm or systemd. */
const copiesMs = 200;

/** Tells a signal from copies of the one before it. */
export class SignalCopies {
  readonly #last: Map<string, number> = new Map();

  isCopy(signal: string, nowMs: number): boolean {
    const last = this.#last.get(signal);
    this.#last.set(signal, nowMs);
    return last !== undefined && nowMs - last < copiesMs;
  }
}

export function stopRequested(
  monotonicMs: () => number,
  again: (reason: string) => void,
): Promise<string> {
  const copies = new SignalCopies();
  return new Promise((resolve) => {
    let first: string | undefined;
    const ask = (reason: string): void => {
      if (copies.isCopy(reason, monotonicMs())) return;
      if (first !== undefined && reason !== launcherEnded) again(reason);
      first ??= reason;
      resolve(first);
    };
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => ask(signal));
    process.once("disconnect", () => ask(launcherEnded));
  });
}

const launcherEnded = "the end of its launcher";
