/** The types of explanations: why a task is where it is, and which workers ask for tasks. */
import type { Task, WorkerId } from "@codeq/queue";
import type { QueuePause } from "../records/pause-record.ts";

/** A task and what a claim would meet in its queue; travels to the router as JSON. */
export interface Explained {
  readonly task: Task;
  /** Why a claim for its queue would get nothing; undefined when it would get something. */
  readonly obstacle: Obstacle | undefined;
  /** Of a ready task: who comes before it. */
  readonly ahead: Ahead | undefined;
  readonly queue: QueueLook;
}

export type Obstacle =
  /** It was not begun in time, and is about to end. */
  | { readonly rule: "expired" }
  | { readonly rule: "storage" }
  | { readonly rule: "lease_quota" }
  | { readonly rule: "paused"; readonly pause: QueuePause }
  /** The queue has as many leases as its topic allows. */
  | { readonly rule: "topic_limit"; readonly limit: number };

export interface Ahead {
  /** Ready tasks of the same queue with a higher priority. */
  readonly higher: number;
  /** Those of its own priority that have been ready for longer. */
  readonly older: number;
  /** There are at least so many older ones; no more were looked at. */
  readonly isAtLeast: boolean;
  /** With several shards nobody knows the order between them. */
  readonly isEstimate?: true;
}

/** Attempts that ended in a second: in the minute before, and in the last 60 seconds. */
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
  /** Claims of it that wait. */
  readonly claims: number;
  /** Names of queues; undefined for every queue of the tenant. */
  readonly queues: readonly string[] | undefined;
}

export function asksFor({ queues }: WaitingWorker, queue: string): boolean {
  return queues === undefined || queues.includes(queue);
}
