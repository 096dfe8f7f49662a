/**
 * Reads every file of the store now and then and checks it, in a thread, so that damage is found while
 * there are backups without it. A finding ends the acknowledgements, and the server with it.
 */
import type { Clock } from "../clock.ts";
import type { Store } from "../store/store.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Job } from "./ticker.ts";

export function scrubStore(parts: {
  store: Store;
  clock: Clock;
  logger: Logger;
  everyMs: number;
}): Job {
  const { store, clock, logger, everyMs } = parts;
  let nextMs = clock.monotonicMs() + everyMs;
  return {
    name: "scrub-store",
    nextMs: () => (store.hasFiles && everyMs > 0 ? nextMs : undefined),
    runOnce: () => {
      nextMs = clock.monotonicMs() + everyMs;
      const startedMs = clock.monotonicMs();
      // Other jobs do not wait for it. The engine reports what is damaged itself.
      store.scrub().then(
        () => logger.info("the store was verified", { ms: clock.monotonicMs() - startedMs }),
        () => {},
      );
      return Promise.resolve();
    },
  };
}
