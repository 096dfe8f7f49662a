/** Why a task is where it is, as the server tells it. */

/** An attempt of a task: one worker, one lease. */
export interface TaskAttempt {
  readonly workerId: string;
  /** Which attempt it is, from 1 on. */
  readonly leaseToken: number;
  /** Moments are texts, as in RFC 3339. */
  readonly startedAt: string;
  /** Left out while the worker has the task. */
  readonly endedAt?: string;
  readonly outcome:
    | "running"
    | "completed"
    | "failed"
    | "nacked"
    | "abandoned"
    | "interrupted"
    | "expired"
    | "unsent"
    | "cancelled"
    | "timed_out";
  /** What the worker said, cut to 200 characters. */
  readonly error?: string;
  /** How long until the task could be claimed again. */
  readonly delaySeconds?: number;
}

/** Why a task is where it is. */
export interface TaskExplanation {
  readonly taskId: string;
  readonly command: string;
  readonly place: "ready" | "delayed" | "leased" | "dead" | "done" | "failed";
  /** What holds the task. */
  readonly rule:
    | "expired"
    | "delayed"
    | "storage"
    | "lease_quota"
    | "paused"
    | "topic_limit"
    | "no_worker"
    | "no_worker_for_command"
    | "workers_busy"
    | "next"
    | "leased"
    | "dead"
    | "done"
    | "failed";
  /** The same for people. */
  readonly why: string;
  /** When a delayed task may be claimed. */
  readonly dueAt?: string;
  /** Who has it, since when, and until when unless the lease is extended. */
  readonly workerId?: string;
  readonly since?: string;
  readonly leaseUntil?: string;
  /** Who paused its queue. */
  readonly paused?: { readonly by: string; readonly at: string; readonly reason?: string };
  /** What comes before a ready task in its queue. */
  readonly ahead?: {
    /** Ready tasks with a higher priority. */
    readonly higher: number;
    /** Those of its priority that are ready for longer. */
    readonly older: number;
    /** There are at least so many. */
    readonly isAtLeast: boolean;
    /** Several shards have tasks of the queue, and nobody knows the order between them. */
    readonly isEstimate?: true;
  };
  /** About when it begins, by how fast attempts of its queue ended lately. */
  readonly startsIn?: { readonly fromSeconds: number; readonly toSeconds: number };
  readonly queue: {
    readonly ready: number;
    readonly delayed: number;
    readonly inProgress: number;
    readonly endedPerMinute?: number;
  };
  readonly workers: {
    /** Workers with a claim for its queue that waits. */
    readonly asking: number;
    /** Workers with a stream, or with a claim for any queue. */
    readonly connected: number;
  };
}
