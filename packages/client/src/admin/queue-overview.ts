/** Queues as administrators see them: how many tasks are where, how fast, and since when. */

/** What happens to tasks: a number of them, or of them a second. */
export interface TaskFlow {
  /** Created, or replayed by an operator. */
  readonly enqueued: number;
  readonly completed: number;
  /** Failed without a retry, cancelled, or dead letters. */
  readonly failed: number;
  /** Attempts that came back and are followed by another. */
  readonly retried: number;
}

/** How many tasks are where, and what happens to them. */
export interface QueueStats {
  readonly ready: number;
  readonly delayed: number;
  readonly inProgress: number;
  /** Dead letters. */
  readonly dlq: number;
  /** Failed without a retry or cancelled, without dead letters, until their retention ends. */
  readonly failed: number;
  /** Tasks a second, over the last minute. */
  readonly rates: TaskFlow;
  /** How long ago the oldest ready task was created; missing when none is ready. */
  readonly oldestSeconds?: number;
  /** How long the ready tasks take at the present rate; missing while none ends. */
  readonly drainSeconds?: number;
}

/** One queue. */
export interface QueueDetails extends QueueStats {
  /** The name of the queue, in lower case. */
  readonly command: string;
  readonly paused?: { readonly by: string; readonly at: string; readonly reason?: string };
  /** How many tasks its topic lets workers have at once; missing when there is no limit. */
  readonly inProgressMax?: number;
}

/** All queues of a tenant. */
export interface QueueOverview {
  readonly queues: readonly QueueDetails[];
  readonly totals: QueueStats & { readonly queues: number };
}

/** Which series. */
export interface SeriesOptions {
  /** One queue; all queues together without it. */
  readonly command?: string | undefined;
  /** `minute` for the last 24 hours, the default; `hour` for the last 7 days. */
  readonly resolution?: "minute" | "hour" | undefined;
  /** Only so many of the latest minutes or hours, and without what is usual. */
  readonly last?: number | undefined;
}

/** What happened within a minute or an hour, and how many tasks were where at its end. */
export interface SeriesPoint extends TaskFlow {
  /** When it began, as in RFC 3339. */
  readonly at: string;
  readonly ready: number;
  readonly delayed: number;
  readonly inProgress: number;
  readonly dlq: number;
  readonly oldestSeconds?: number;
}

/** What happened in a queue, or in all of a tenant. */
export interface QueueSeries {
  readonly command?: string;
  readonly resolution: "minute" | "hour";
  /** In their order; one in which no task moved is left out: all is as at the point before. */
  readonly points: readonly SeriesPoint[];
  /** What is usual in an hour of the day, in UTC: the median of the last 7 days. */
  readonly usual: readonly (TaskFlow & { readonly hour: number })[];
}

/** What happened in several queues in each of the last whole minutes. */
export interface QueueTrends {
  /** When the first minute began, as in RFC 3339. */
  readonly from: string;
  /** In the order of the request; each list has one number per minute. */
  readonly queues: readonly ({ readonly command: string } & {
    readonly [name in keyof TaskFlow]: readonly number[];
  })[];
}
