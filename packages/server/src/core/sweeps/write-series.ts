/** Writes the history of every queue, by the minute, so that a restart does not lose it. */
import type { QueueSeries } from "../series/queue-series.ts";
import type { Store } from "../store/store.ts";
import type { Job } from "./ticker.ts";

export function writeSeries({
  series,
  store,
}: {
  readonly series: QueueSeries;
  readonly store: Store;
}): Job {
  return {
    name: "write-series",
    // While the disk is full the minute grows; nothing waits for it.
    nextMs: () => (store.state === "open" ? series.dueMs : undefined),
    runOnce: () => series.turn(),
  };
}
