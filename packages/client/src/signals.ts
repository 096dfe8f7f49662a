/**
 * Closes workers when the process gets a signal to end. Node ends a process without a listener at once, and leaves one
 * with a listener alone; this does what lies between: workers close, then the process ends.
 */
import { systemClock } from "./clock.ts";

const signals = ["SIGINT", "SIGTERM"] as const;
/** For what else the application does at its end. */
const endMsMax = 5_000;

const closers = new Set<() => Promise<void>>();

/** A second signal ends the process at once: the listeners are gone by then. */
export function onSignal(close: () => Promise<void>): () => void {
  if (closers.size === 0) for (const signal of signals) process.on(signal, onEach);
  closers.add(close);
  return () => {
    closers.delete(close);
    if (closers.size === 0) stopListening();
  };
}

function stopListening(): void {
  for (const signal of signals) process.removeListener(signal, onEach);
}

function onEach(signal: NodeJS.Signals): void {
  stopListening();
  const closing = [...closers].map((close) => close());
  closers.clear();
  void Promise.allSettled(closing).then((closed) => {
    for (const each of closed) {
      if (each.status === "fulfilled") continue;
      process.exitCode = 1;
      process.emitWarning(each.reason as Error);
    }
    const end = (): void => {
      // Without another listener, the signal has its usual effect.
      if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
    };
    systemClock.after(endMsMax, end, { background: true });
  });
}
