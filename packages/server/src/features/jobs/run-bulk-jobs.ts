/**
 * Runs the next step of every bulk job that is due, in the background and one round at a time: a step may
 * wait long for a search, and other maintenance must not wait with it.
 */

import type { Job } from "../../core/sweeps/ticker.ts";
import type { BulkJobs } from "./bulk-jobs.ts";

export interface RunBulkJobs extends Job {
  /** Resolves when nothing is under way. */
  settle(): Promise<void>;
}

export function runBulkJobs(jobs: BulkJobs): RunBulkJobs {
  let running: Promise<void> | undefined;
  return {
    name: "run-bulk-jobs",
    nextMs: () => (running === undefined ? jobs.dueMs : undefined),
    runOnce: () => {
      running = jobs.runDue().finally(() => {
        running = undefined;
        jobs.onPlanned();
      });
      return Promise.resolve();
    },
    settle: async () => await running,
  };
}
