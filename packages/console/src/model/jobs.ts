/** Bulk jobs: what the server does to many tasks, step by step. */
import { ask, tenant } from "../api.ts";
import { type Answer, useQuery } from "../query.ts";
import { useStore } from "../store.ts";

export interface Job {
  readonly id: string;
  readonly action: "replay" | "delete" | "cancel" | "move";
  readonly filter: Readonly<Record<string, unknown>>;
  /** The queue that tasks are moved to. */
  readonly moveTo?: string;
  readonly state: "running" | "paused" | "done" | "aborted" | "stopped";
  readonly reason?: string;
  readonly by: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly ratePerSecond: number;
  readonly matched: number;
  readonly changed: number;
  readonly failed: number;
  readonly canary?: {
    readonly first: number;
    readonly factor: number;
    readonly failurePercent: number;
    readonly stage?: {
      readonly size: number;
      readonly waiting: number;
      readonly succeeded: number;
      readonly failedAgain: number;
    };
  };
}

export const jobsPath = "/v1/codeq/admin/jobs";

export function useJobs(): Answer<{ readonly jobs: readonly Job[] }> {
  const of = useStore(tenant);
  const load = (): Promise<{ jobs: Job[] }> => ask({ path: jobsPath });
  return useQuery(`jobs:${of}`, load, { everyMs: 2000 });
}
