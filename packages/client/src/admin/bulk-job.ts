/** Bulk jobs: what is done to all tasks that match, at a limited rate. */
import type { TaskFilter } from "./admin-task.ts";

/** What to do to which tasks. */
export interface JobOptions {
  /**
   * `replay` is for dead letters and failed tasks, `delete` for tasks that have ended, `cancel` for all others, `move`
   * for those that wait.
   */
  readonly action: "replay" | "delete" | "cancel" | "move";
  /** Which tasks; without it `all` has to be said. */
  readonly filter?: TaskFilter | undefined;
  readonly all?: boolean | undefined;
  /** Tasks a second; default: 100. */
  readonly ratePerSecond?: number | undefined;
  /** For `cancel`: seconds that a worker gets to stop. */
  readonly graceSeconds?: number | undefined;
  /** For `move`: the queue that the tasks go to. */
  readonly moveTo?: string | undefined;
  /** For `replay`: few tasks first, and more while enough of them succeed. */
  readonly canary?: CanaryOptions | true | undefined;
}

/** How a job feels its way. */
export interface CanaryOptions {
  /** How many tasks the first stage replays; default: 10. */
  readonly first?: number | undefined;
  /** How much larger each stage is; default: 2. */
  readonly factor?: number | undefined;
  /** The job stops when more of a stage fail again; default: 20. */
  readonly failurePercent?: number | undefined;
}
