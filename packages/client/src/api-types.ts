/** Generated from packages/protocol/src/api by `npm run gen`; edit that instead. */

/** What a queue does with its tasks. */
export interface TopicPolicy {
  /** Priorities that tasks may have. */
  readonly priorityTiers: readonly number[];
  /** Attempts of a task that does not say how many. */
  readonly maxAttempts: number;
  /** The queue that gets a copy of every dead letter. */
  readonly deadLetterTopicRef?: string | undefined;
  /** Seconds that finished tasks are kept; 0 for what the server says. */
  readonly retentionSeconds?: number | undefined;
  /** How many tasks may be leased; 0 for any number. */
  readonly maxConsumers?: number | undefined;
}

/** A queue with a policy of its own. */
export interface Topic {
  readonly topicId: string;
  readonly tenantId: string;
  /** Also the name of the queue. */
  readonly topicName: string;
  readonly policy: TopicPolicy;
  /** Grows with every change of the policy. */
  readonly version: number;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** What a backup has written. */
export interface CreatedBackup {
  /** On the machine of the server. */
  readonly directory: string;
  readonly files: readonly {
    /** `control` or `shard-<n>`. */
    readonly store: string;
    readonly file: string;
    /** Everything, or what happened since the file before it. */
    readonly kind: "full" | "log";
    readonly items: number;
    readonly bytes: number;
  }[];
}

/** One queue. */
export interface QueueDetails {
  /** The name of the queue, in lower case. */
  readonly command: string;
  readonly ready: number;
  readonly delayed: number;
  readonly inProgress: number;
  readonly dlq: number;
  /** Tasks that failed without a retry or were cancelled, until their retention ends. */
  readonly failed: number;
  /** Tasks a second, over the last minute. */
  readonly rates: {
    /** Created or replayed. */
    readonly enqueued: number;
    readonly completed: number;
    /** Failed without a retry, cancelled, or dead letters. */
    readonly failed: number;
    /** Attempts that failed and are retried. */
    readonly retried: number;
  };
  /** How long ago the oldest ready task was created. */
  readonly oldestSeconds?: number | undefined;
  /** How long the ready tasks take at the present rate; only while tasks end. */
  readonly drainSeconds?: number | undefined;
  /** Who paused the queue, when and why. */
  readonly paused?: {
    /** Who paused it. */
    readonly by: string;
    /** When. */
    readonly at: string;
    readonly reason?: string | undefined;
  } | undefined;
  /** The limit of leases that its topic has. */
  readonly inProgressMax?: number | undefined;
}

/** All queues of a tenant. */
export interface QueueOverview {
  readonly queues: readonly QueueDetails[];
  readonly totals: {
    readonly ready: number;
    readonly delayed: number;
    readonly inProgress: number;
    readonly dlq: number;
    /** Tasks that failed without a retry or were cancelled, until their retention ends. */
    readonly failed: number;
    /** Tasks a second, over the last minute. */
    readonly rates: {
      /** Created or replayed. */
      readonly enqueued: number;
      readonly completed: number;
      /** Failed without a retry, cancelled, or dead letters. */
      readonly failed: number;
      /** Attempts that failed and are retried. */
      readonly retried: number;
    };
    /** How long ago the oldest ready task was created. */
    readonly oldestSeconds?: number | undefined;
    /** How long the ready tasks take at the present rate; only while tasks end. */
    readonly drainSeconds?: number | undefined;
    readonly queues: number;
  };
}

/** A queue that is paused. */
export interface QueuePause {
  /** The name of the queue, in lower case. */
  readonly command: string;
  /** Who paused it. */
  readonly by: string;
  /** When. */
  readonly at: string;
  readonly reason?: string | undefined;
}

/** What happened in a queue, or in all queues of a tenant. */
export interface QueueSeries {
  readonly command?: string | undefined;
  readonly resolution: "minute" | "hour";
  readonly points: readonly {
    readonly at: string;
    /** Created or replayed. */
    readonly enqueued: number;
    readonly completed: number;
    /** Failed without a retry, cancelled, or dead letters. */
    readonly failed: number;
    /** Attempts that failed and are retried. */
    readonly retried: number;
    readonly ready: number;
    readonly delayed: number;
    readonly inProgress: number;
    readonly dlq: number;
    readonly oldestSeconds?: number | undefined;
  }[];
  readonly usual: readonly {
    readonly hour: number;
    /** Created or replayed. */
    readonly enqueued: number;
    readonly completed: number;
    /** Failed without a retry, cancelled, or dead letters. */
    readonly failed: number;
    /** Attempts that failed and are retried. */
    readonly retried: number;
  }[];
}

/** What happened in several queues in each of the last whole minutes. */
export interface QueueTrends {
  /** When the first minute began. */
  readonly from: string;
  readonly queues: readonly {
    readonly command: string;
    readonly enqueued: readonly number[];
    readonly completed: readonly number[];
    readonly failed: readonly number[];
    readonly retried: readonly number[];
  }[];
}

/** A setting of the server; secrets have no value here. */
export interface ServerSetting {
  readonly key: string;
  readonly value: string;
  /** `default`, or the file, variable or flag that sets it. */
  readonly source: string;
}

/** Failures whose errors have something in common. */
export interface FailureGroup {
  /** For the filter `group`. */
  readonly id: string;
  /** What the errors have in common. */
  readonly text: string;
  readonly count: number;
  /** How many of them are dead letters. */
  readonly dlq: number;
  /** How many of them failed without a retry. */
  readonly failed: number;
  readonly firstSeen: string;
  readonly lastSeen: string;
  readonly commands: readonly {
    readonly command: string;
    readonly count: number;
  }[];
  /** The last of them. */
  readonly example: {
    readonly taskId: string;
    readonly error: string;
  };
  /** Failures in each of the last 24 hours, this hour the last. */
  readonly trend: readonly number[];
  /** `returned` when it failed again after it was resolved. */
  readonly state: "open" | "returned" | "resolved" | "ignored" | "snoozed";
  /** Who decided so, and until when. */
  readonly triage?: {
    readonly by: string;
    readonly at: string;
    readonly until?: string | undefined;
    readonly reason?: string | undefined;
  } | undefined;
}

/** What is decided about a failure group; `open` takes it back. */
export interface TriageOptions {
  /** `resolved`, `ignored`, `snoozed`, or `open` to take that back. */
  readonly state: "open" | "resolved" | "ignored" | "snoozed";
  /** For `snoozed`: seconds until the group is open again. */
  readonly snoozeSeconds?: number | undefined;
  /** At most 4096 characters. */
  readonly reason?: string | undefined;
}
