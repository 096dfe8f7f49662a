/** A worker that ends when there is nothing to do, or when its time is nearly over. */
import type { Clock } from "../clock.ts";
import type { Settled, Worker, WorkerOptions } from "./worker-options.ts";

/** What a worker has done, in runs of handlers. */
export type WorkedOff = Readonly<Record<Settled, number>>;

interface UntilIdleParts {
  readonly clock: Clock;
  readonly idleMs: number;
  readonly maxMs: number;
  readonly options: WorkerOptions;
  readonly start: (options: WorkerOptions) => Worker;
}

/** For handlers to stop, and for the server to hear of it. */
const stopMsMax = 8_000;

export async function workUntilIdle(parts: UntilIdleParts): Promise<WorkedOff> {
  const { clock, idleMs, maxMs, options, start } = parts;
  const { on = {}, middleware = [] } = options;
  const worked: Record<Settled, number> = {
    completed: 0,
    failed: 0,
    retry: 0,
    dead_letter: 0,
    handed_back: 0,
  };
  const enough = Promise.withResolvers<void>();
  let cancelQuiet = (): void => {};
  const quiet = (): void => {
    cancelQuiet();
    if (worker.busy === 0) cancelQuiet = clock.after(idleMs, enough.resolve);
  };
  const worker = start({
    ...options,
    signals: options.signals ?? false,
    middleware: [
      (_ctx, next) => {
        cancelQuiet();
        return next();
      },
      ...middleware,
    ],
    on: {
      ...on,
      settled: (ctx, as) => {
        worked[as] += 1;
        on.settled?.(ctx, as);
        quiet();
      },
      refused: (error) => {
        on.refused?.(error);
        quiet();
      },
      connection: (problem) => {
        on.connection?.(problem);
        if (problem === undefined) quiet();
      },
    },
  });
  const workMs = maxMs - Math.min(stopMsMax, maxMs / 4);
  const cancelEnd = Number.isFinite(workMs) ? clock.after(workMs, enough.resolve) : () => {};
  try {
    await Promise.race([enough.promise, worker.done]);
    await worker.close({ grace: 0 });
  } finally {
    cancelQuiet();
    cancelEnd();
  }
  return worked;
}
