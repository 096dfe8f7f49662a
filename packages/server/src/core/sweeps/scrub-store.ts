/**
 * Reads and verifies every file of the store from time to time, in a thread, so that damage is found while
 * undamaged backups exist. If it finds damage, the server acknowledges nothing more and ends.
 */

import type { Logger } from "../../telemetry/logger.ts";
import type { Clock } from "../clock.ts";
import type { Store } from "../store/store.ts";
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
