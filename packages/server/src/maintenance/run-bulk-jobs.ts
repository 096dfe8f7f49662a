/** Runs the next step of every bulk job that is due. */
import type { BulkJobs } from "../operations/bulk-jobs.ts";
import type { Job } from "./ticker.ts";

export function runBulkJobs(jobs: BulkJobs): Job {
  return {
    name: "run-bulk-jobs",
    nextMs: () => jobs.dueMs,
    runOnce: () => jobs.runDue(),
  };
}
