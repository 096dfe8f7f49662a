/** The types of explanations: why a task is where it is, and which workers wait for tasks. */
import type { Task, WorkerId } from "@codeq/queue";
import type { ShownBatch } from "../records/batch-record.ts";
import type { WireRate } from "../records/lane-policy.ts";
import type { QueuePause } from "../records/pause-record.ts";

/** A task and what a claim would meet in its queue; travels to the router as JSON. */
export interface Explained {
  readonly task: Task;
  /** Why a claim for its queue would get nothing; undefined when it would get something. */
  readonly obstacle: Obstacle | undefined;
  /** For a ready task: how many tasks come before it. */
  readonly ahead: Ahead | undefined;
  readonly queue: QueueLook;
  /** The batch that the task belongs to. */
  readonly batch: ShownBatch | undefined;
  /** A few of the tasks that a callback waits for. */
  readonly waitsFor: readonly Pick<Task, "id" | "command">[];
}

export type Obstacle =
  /** No worker began the task in time; it is about to end. */
  | { readonly rule: "expired" }
  | { readonly rule: "storage" }
  | { readonly rule: "lease_quota" }
  | { readonly rule: "paused"; readonly pause: QueuePause }
  /** The queue has as many leases as its topic allows. */
  | { readonly rule: "topic_limit"; readonly limit: number }
  | LaneObstacle;

/** Why nothing can be claimed from a lane, or from the queue by its rate. Times are on the wall clock. */
export type LaneObstacle =
  | { readonly rule: "lane_paused"; readonly pause: QueuePause }
  | { readonly rule: "lane_limit"; readonly limit: number }
  | { readonly rule: "lane_held"; readonly nextMs: number }
  | {
      readonly rule: "topic_rate" | "lane_rate";
      readonly nextMs: number;
      readonly rate: WireRate | undefined;
    };

/** A lane as administrators see it. */
export interface LaneLook {
  readonly lane: string;
  readonly ready: number;
  readonly leased: number;
  readonly oldestMs?: number | undefined;
  /** Undefined for any number. */
  readonly concurrency?: number | undefined;
  readonly rate?: WireRate | undefined;
  readonly weight: number;
  readonly unitsLeft?: number | undefined;
  readonly nextMs?: number | undefined;
  readonly paused?: QueuePause | undefined;
  /** What was claimed of it of late. */
  readonly recentUnits: number;
}

export interface Ahead {
  /** Ready tasks of the same queue with a higher priority. */
  readonly higher: number;
  /** Tasks of the same priority that come first: ready for longer or, where the queue has lanes, before its turn. */
  readonly older: number;
  /** There are at least so many older tasks; no more were looked at. */
  readonly isAtLeast: boolean;
  /** With several shards, because the order between them is not known. */
  readonly isEstimate?: true;
}

/** Attempts per second that ended in the previous minute and in the last 60 seconds, the lower and the higher. */
export interface DrainRange {
  readonly low: number;
  readonly high: number;
}

export interface QueueLook {
  readonly ready: readonly number[];
  readonly delayed: number;
  readonly leased: number;
  readonly drain: DrainRange | undefined;
}

/** A worker that waits for tasks. */
export interface WaitingWorker {
  readonly workerId: WorkerId;
  /** How many of its claims wait. */
  readonly claims: number;
  /** Names of queues; undefined for every queue of the tenant. */
  readonly queues: readonly string[] | undefined;
}

export function asksFor({ queues }: WaitingWorker, queue: string): boolean {
  return queues === undefined || queues.includes(queue);
}
