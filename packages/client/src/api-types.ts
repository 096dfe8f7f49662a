/** Generated from packages/protocol/src/api by `npm run gen`; edit that instead. */

/** A task spends its cost, which is 1 by default. */
export interface Rate {
  /** How many units may be spent in the time `per`. */
  readonly units: number;
  /** A length of time such as `1s`, `1m` or `24h`. */
  readonly per: string;
  /** How many units may be spent at once; 0 for `units`. */
  readonly burst?: number | undefined;
}

/** What applies to each lane of a queue. */
export interface LanesPolicy {
  /** How many tasks of a lane may be leased; 0 for any number. */
  readonly concurrency?: number | undefined;
  readonly rate?: Rate | undefined;
  /** How many times the share of the tasks without a lane, or of a lane with the weight 1; default: 1. */
  readonly weight?: number | undefined;
}

/** What one lane has instead of what the topic says. */
export interface LaneLimits {
  /** How many tasks may be leased; 0 for any number. By default as for each lane. */
  readonly concurrency?: number | undefined;
  readonly rate?: Rate | undefined;
  /** How many times the share of a lane with the weight 1. By default as for each lane. */
  readonly weight?: number | undefined;
}

/** A lane of a queue. */
export interface Lane {
  readonly lane: string;
  /** Tasks that are ready. */
  readonly ready: number;
  /** Tasks that workers have. */
  readonly inProgress: number;
  /** When the next task was created. */
  readonly oldestAt?: string | undefined;
  /** How many tasks may be leased. */
  readonly concurrency?: number | undefined;
  readonly rate?: Rate | undefined;
  /** How many times the share of a lane with the weight 1. */
  readonly weight: number;
  /** Its share of the units that were claimed with a lane in the last minutes, from 0 to 1. */
  readonly share: number;
  /** Units that may be spent now. */
  readonly unitsLeft?: number | undefined;
  /** When the next task may be claimed, where that is later than now. */
  readonly nextAt?: string | undefined;
  /** Who paused the lane, when and why. */
  readonly paused?: {
    /** Who paused it. */
    readonly by: string;
    /** When. */
    readonly at: string;
    readonly reason?: string | undefined;
  } | undefined;
}

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
  /** How many tasks may be leased; 0 for any number. Exact on one server, and in a cluster with the placement `one`. */
  readonly maxConsumers?: number | undefined;
  readonly rate?: Rate | undefined;
  readonly lanes?: LanesPolicy | undefined;
  /** `one` creates all tasks of the queue in one shard, so that `maxConsumers` and `rate` are exact with several shards and in a cluster; the queue then has the speed of one shard. Changes only while the queue is empty. */
  readonly placement?: "spread" | "one" | undefined;
}

/** A queue with a policy of its own. */
export interface Topic {
  readonly topicId: string;
  readonly tenantId: string;
  /** Also the name of the queue, in lower case. */
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

/** A batch as it is now. */
export interface BatchProgress {
  readonly id: string;
  /** `open` takes members, `sealed` waits for them, `released`: the callback was released, `failed`: a member failed and the callback is a dead letter, `cancelled`, or `expired`: the batch was not sealed in time. */
  readonly phase: "open" | "sealed" | "released" | "failed" | "cancelled" | "expired";
  readonly on: "success" | "end";
  readonly failFast?: boolean | undefined;
  /** The command of the callback. */
  readonly command: string;
  /** The task that runs at the end; its result can be awaited from the start. */
  readonly callbackId: string;
  /** All members. */
  readonly total: number;
  /** Members that have not ended. */
  readonly pending: number;
  /** Members that completed. */
  readonly succeeded: number;
  /** Members that are dead letters or failed. */
  readonly failed: number;
  /** Members that were cancelled. */
  readonly cancelled: number;
  /** A member that failed. */
  readonly failure?: {
    readonly taskId: string;
    readonly error?: string | undefined;
  } | undefined;
  readonly createdAt: string;
  /** When the batch expires unless it is sealed before. */
  readonly openUntil?: string | undefined;
  /** When the callback was released, failed or cancelled. */
  readonly endedAt?: string | undefined;
}

/** A member of a batch, with its result once it has ended. */
export interface BatchMember {
  readonly taskId: string;
  readonly command: string;
  /** The task's status. */
  readonly status: "PENDING" | "IN_PROGRESS" | "COMPLETED" | "FAILED";
  /** What the worker submitted. */
  readonly result?: unknown | undefined;
  readonly error?: string | undefined;
  /** Files that belong to the result. */
  readonly artifacts?: readonly Artifact[] | undefined;
}

/** One queue. */
export interface QueueDetails {
  /** The name of the queue, in lower case. */
  readonly command: string;
  readonly ready: number;
  readonly delayed: number;
  readonly inProgress: number;
  readonly dlq: number;
  /** Tasks that failed without a retry, until their retention ends. */
  readonly failed: number;
  /** Tasks a second, over the last minute. */
  readonly rates: {
    /** Created or replayed. */
    readonly enqueued: number;
    readonly completed: number;
    /** Failed without a retry, or dead letters; a cancelled task is no failure. */
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
  /** Workers whose claims wait for tasks of the queue. */
  readonly workersAsking: number;
}

/** All queues of a tenant. */
export interface QueueOverview {
  readonly queues: readonly QueueDetails[];
  readonly totals: {
    readonly ready: number;
    readonly delayed: number;
    readonly inProgress: number;
    readonly dlq: number;
    /** Tasks that failed without a retry, until their retention ends. */
    readonly failed: number;
    /** Tasks a second, over the last minute. */
    readonly rates: {
      /** Created or replayed. */
      readonly enqueued: number;
      readonly completed: number;
      /** Failed without a retry, or dead letters; a cancelled task is no failure. */
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
    /** Failed without a retry, or dead letters; a cancelled task is no failure. */
    readonly failed: number;
    /** Attempts that failed and are retried. */
    readonly retried: number;
    readonly ready: number;
    readonly delayed: number;
    readonly inProgress: number;
    readonly dlq: number;
    readonly oldestSeconds?: number | undefined;
    /** The median of the time from ready to claimed, within a fifth, of the tasks that were claimed. */
    readonly waitP50Seconds?: number | undefined;
    /** Its 99th percentile. */
    readonly waitP99Seconds?: number | undefined;
    /** The median of the time that attempts took, within a fifth, of the attempts that ended. */
    readonly runP50Seconds?: number | undefined;
    /** Its 99th percentile. */
    readonly runP99Seconds?: number | undefined;
  }[];
  readonly usual: readonly {
    readonly hour: number;
    /** Created or replayed. */
    readonly enqueued: number;
    readonly completed: number;
    /** Failed without a retry, or dead letters; a cancelled task is no failure. */
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

/** What is posted to the `webhook` of a task. */
export interface WebhookBody {
  readonly taskId: string;
  /** The name of the task. */
  readonly eventType: string;
  readonly status: "COMPLETED" | "FAILED";
  /** What the worker returned; null when the task failed. */
  readonly result: unknown;
  /** Empty when there was none. */
  readonly error: string;
  readonly artifacts: readonly {
    readonly name: string;
    readonly url: string;
  }[];
  readonly completedAt: string;
}

/** One try to post a result. */
export interface DeliveryTry {
  /** When it began. */
  readonly at: string;
  /** Of the answer, if there was one. */
  readonly status?: number | undefined;
  readonly durationMs: number;
  /** Why it failed. */
  readonly error?: string | undefined;
}

/** The delivery of the webhook of a task. */
export interface Deliveries {
  readonly taskId: string;
  readonly url?: string | undefined;
  /** `none` without a webhook, `pending` before the task has ended. */
  readonly state: "none" | "pending" | "waiting" | "delivered" | "failed";
  /** Why it was given up. */
  readonly error?: string | undefined;
  readonly nextTryAt?: string | undefined;
  /** How often it was tried in all. */
  readonly total: number;
  /** The last tries, the oldest first. */
  readonly tries: readonly DeliveryTry[];
}

/** A webhook that was given up. */
export interface FailedDelivery {
  readonly taskId: string;
  readonly command: string;
  readonly url: string;
  /** When it was given up. */
  readonly failedAt: string;
  readonly error: string;
  /** How often it was tried in all. */
  readonly total: number;
  readonly lastTry?: DeliveryTry | undefined;
}

/** An endpoint that fails or is disabled. */
export interface FailingEndpoint {
  /** Without a query. */
  readonly url: string;
  readonly disabled: boolean;
  readonly failingSince: string;
  readonly error: string;
  readonly disabledAt?: string | undefined;
}

/** What came of sending webhooks once more. */
export interface RedeliverOutcome {
  /** Number of webhooks that match. */
  readonly matched: number;
  readonly redelivered: number;
  /** The first of those that were not sent, with the reason. */
  readonly failed: readonly {
    readonly id: string;
    readonly code: string;
  }[];
  /** Whether more webhooks may match. */
  readonly hasMore: boolean;
}

/** A secret that signs webhooks. */
export interface WebhookSecret {
  readonly id: string;
  readonly createdAt?: string | undefined;
  readonly createdBy?: string | undefined;
  /** When it ceases to sign. */
  readonly validUntil?: string | undefined;
}

/** A new secret, with its text. */
export interface CreatedWebhookSecret extends WebhookSecret {
  /** The secret itself; it is not shown again. */
  readonly secret: string;
}

/** What every answer about a task has. */
export interface TaskState {
  readonly id: string;
  /** The name of the work. */
  readonly command: string;
  /** 0 if missing. */
  readonly priority?: number | undefined;
  readonly webhook?: string | undefined;
  readonly traceParent?: string | undefined;
  readonly traceState?: string | undefined;
  /** `PENDING` waits, `IN_PROGRESS` is at a worker, `COMPLETED` and `FAILED` have ended. */
  readonly status: "PENDING" | "IN_PROGRESS" | "COMPLETED" | "FAILED";
  readonly lastKnownLocation: "PENDING_LIST" | "DELAYED_ZSET" | "HELD_SET" | "INPROG_SET" | "DLQ_SET" | "NONE";
  /** When the task becomes ready; only while it is delayed. */
  readonly runAt?: string | undefined;
  /** The worker that has the task; for administrators also the one that finished it. */
  readonly workerId?: string | undefined;
  /** When the lease ends, unless the worker extends it. */
  readonly leaseUntil?: string | undefined;
  /** Attempts that came back; 0 if missing. */
  readonly attempts?: number | undefined;
  /** Attempts before the task becomes a dead letter. */
  readonly maxAttempts: number;
  /** The last failure. */
  readonly error?: string | undefined;
  /** A name for the result, once the task has ended; `GET /tasks/:id/result` reads the result. It is not a key of the store. */
  readonly resultKey?: string | undefined;
  readonly tenantId?: string | undefined;
  readonly createdAt: string;
  readonly updatedAt: string;
  /** The fencing token of this attempt. */
  readonly leaseToken?: number | undefined;
  /** The task that was replayed as this task. */
  readonly replayOf?: string | undefined;
  /** The last task that this task was replayed as. */
  readonly replayedAs?: string | undefined;
  /** How often the task was replayed. */
  readonly replays?: number | undefined;
  /** The tags of the task. */
  readonly tags?: readonly string[] | undefined;
  /** How long an attempt may take. */
  readonly timeoutSeconds?: number | undefined;
  /** How long the task may wait for a worker once it may be claimed. */
  readonly ttlSeconds?: number | undefined;
  /** When the task fails unless a worker has begun it. */
  readonly startBy?: string | undefined;
  /** The schedule that created the task. */
  readonly scheduleId?: string | undefined;
  /** There is one task at a time with this key in the queue. */
  readonly uniqueKey?: string | undefined;
  /** The lane of the task in its queue. */
  readonly lane?: string | undefined;
  /** Units of rates and fair shares that the task takes; 1 if missing. */
  readonly cost?: number | undefined;
  /** How often a later request with the unique key has changed the task. */
  readonly replaced?: number | undefined;
  /** When the first of the requests came. */
  readonly replacedSince?: string | undefined;
  /** The task waits for the end of the task with its unique key. */
  readonly waitsForKey?: true | undefined;
  /** The nominal instant that the task was created for. */
  readonly scheduledFor?: string | undefined;
  /** The batch that the task belongs to. */
  readonly batchId?: string | undefined;
  /** The task is the callback of the batch. */
  readonly isBatchCallback?: true | undefined;
  /** How the members ended; only of a callback that was released. */
  readonly batchEnded?: {
    readonly succeeded: number;
    readonly failed: number;
    readonly cancelled: number;
  } | undefined;
}

/** An attempt of a task: one worker, one lease. */
export interface TaskAttempt {
  readonly workerId: string;
  /** Which attempt it is, from 1 on. */
  readonly leaseToken: number;
  readonly startedAt: string;
  /** Missing while the worker has the task. */
  readonly endedAt?: string | undefined;
  readonly outcome: "running" | "completed" | "failed" | "nacked" | "abandoned" | "interrupted" | "expired" | "unsent" | "cancelled" | "timed_out";
  /** What the worker said, cut to 200 characters. */
  readonly error?: string | undefined;
  /** Where in the worker's code it failed, with causes; of the newest attempts. Hidden like payloads. */
  readonly stack?: string | undefined;
  /** Until the next attempt could begin. */
  readonly delaySeconds?: number | undefined;
}

/** What happened to a task so far. */
export interface TaskHistory {
  /** The last 20 attempts and the one under way, the oldest first. */
  readonly attemptHistory?: readonly TaskAttempt[] | undefined;
  /** How many there were before. */
  readonly attemptsOmitted?: number | undefined;
  /** How far the work has come, as its worker last said. */
  readonly progress?: {
    readonly percent: number;
    readonly text: string;
    readonly at: string;
  } | undefined;
  /** What its workers wrote, the last lines. */
  readonly logs?: readonly {
    readonly at: string;
    readonly text: string;
  }[] | undefined;
}

/** A task as its producer sees it. */
export interface RunStatus extends TaskState, TaskHistory {
  /** The payload as JSON text. */
  readonly payload: string;
}

/** A task of the tenant, of any producer. */
export interface AdminTask extends TaskState {
  /** The payload as JSON text; lists leave out a long one. */
  readonly payload?: string | undefined;
  /** Where the task is; `failed`: it ended without being a dead letter. */
  readonly place: "ready" | "delayed" | "held" | "leased" | "dead" | "failed" | "cancelled" | "done";
  /** The payload is too long for a list; get the task to see it. */
  readonly payloadOmitted?: true | undefined;
  readonly idempotencyKey?: string | undefined;
  /** When the worker of a cancelled task loses the task. */
  readonly cancelledUntil?: string | undefined;
  /** When a delayed task becomes ready. */
  readonly dueAt?: string | undefined;
  readonly endedAt?: string | undefined;
  /** When the task is deleted; missing for a dead letter that is kept forever. */
  readonly expiresAt?: string | undefined;
}

/** How a task ended. */
export interface AdminResult {
  readonly taskId: string;
  readonly status: "COMPLETED" | "FAILED";
  readonly result?: unknown | undefined;
  readonly error?: string | undefined;
  readonly artifacts?: readonly Artifact[] | undefined;
  readonly completedAt: string;
}

/** A task with its payload and, once it has ended, its result. */
export interface InspectedTask {
  readonly task: AdminTask & TaskHistory;
  readonly result?: AdminResult | undefined;
}

/** Some of the tasks that match. A page may be short, or empty, and still have a next one. */
export interface TaskPage {
  readonly tasks: readonly AdminTask[];
  /** Pass it as `after` to get the next page. */
  readonly next?: string | undefined;
  /** Number of tasks that the server examined. */
  readonly scanned: number;
  /** How many there are in all, where a counter knows. */
  readonly total?: number | undefined;
}

/** What is different in the new task; what is missing is as in the old one. */
export interface ReplayChanges {
  /** The payload of the new task. */
  readonly payload?: unknown | undefined;
  /** The queue of the new task. */
  readonly command?: string | undefined;
  /** The priority of the new task. */
  readonly priority?: number | undefined;
  /** Attempts of the new task before it is a dead letter. */
  readonly maxAttempts?: number | undefined;
  /** Seconds before the new task may be claimed. */
  readonly delaySeconds?: number | undefined;
}

/** A file that a result names. */
export interface Artifact {
  readonly name: string;
  /** Where it is: below the server's address unless the server knows how it is reached. */
  readonly url: string;
  /** Of a file that the server keeps; a link has none of these. */
  readonly bytes?: number | undefined;
  /** The hash of the content, in hexadecimal digits. */
  readonly sha256?: string | undefined;
  readonly contentType?: string | undefined;
}

/** A log of a cluster, and who leads it. */
export interface HandedOff {
  /** The number of the shard, or `control` for the log of API keys and others. */
  readonly shard: string;
  /** The node that led before. */
  readonly from: string;
  /** The node that leads now. */
  readonly to: string;
}

/** How far a new node is. */
export interface AddedNode {
  /** `absent` until the node answers, `copying` until it follows every log. */
  readonly state: "absent" | "copying" | "added";
  readonly logs: readonly {
    /** The number of the shard, or `control` for the log of API keys and others. */
    readonly shard: string;
    /** What the new node does. */
    readonly role: string;
    /** How many records it has not read yet, about. */
    readonly behind: number;
  }[];
  /** What `clusterMembers` is to be on every node. */
  readonly members: string;
  /** Nodes that have another list, or did not answer. */
  readonly outdated: readonly string[];
}

/** How far a node is that is taken out of the cluster. */
export interface RemovedNode {
  /** `stop` when the node leads nothing and can be stopped. */
  readonly state: "stop" | "removed";
  /** What `clusterMembers` is to be on every node. */
  readonly members: string;
  /** Nodes that have another list, or did not answer. */
  readonly outdated: readonly string[];
}

/** What to repair, and from which copy. */
export interface RepairOptions {
  /** The number of a shard, or `control`; default: all of them. */
  readonly shard?: string | undefined;
  /** Nodes that are permanently lost, with everything that they had. */
  readonly without?: readonly string[] | undefined;
  /** The node whose data counts; default: the newest. */
  readonly from?: string | undefined;
  /** Whether to repair; default: only say what would be done. */
  readonly confirm?: boolean | undefined;
}

/** What the nodes have of a log, and what a repair does about it. */
export interface RepairedLog {
  /** The number of the shard, or `control` for the log of API keys and others. */
  readonly shard: string;
  /** `copy`: nodes put their data aside and copy that of another; `renew`: a new log continues the data of one node. */
  readonly action: "none" | "copy" | "renew" | "refused";
  /** False when it was not confirmed, or is not needed. */
  readonly done: boolean;
  /** The node whose data is continued. */
  readonly from?: string | undefined;
  /** The nodes that copy. */
  readonly nodes?: readonly string[] | undefined;
  /** Why it cannot be repaired. */
  readonly why?: string | undefined;
  readonly copies: readonly {
    readonly node: string;
    readonly following: boolean;
    readonly damaged: boolean;
    /** Which log its data is from. */
    readonly logId?: number | undefined;
    readonly epoch?: number | undefined;
    readonly slot?: number | undefined;
  }[];
}

/** Something that happened to a task. */
export interface RunEvent {
  readonly event: "created" | "promoted" | "replayed" | "edited" | "claimed" | "completed" | "failed" | "retried" | "released" | "lease_expired" | "progress" | "log";
  /** When, as in RFC 3339. */
  readonly time: string;
  readonly tenantId: string;
  readonly taskId: string;
  readonly command: string;
  readonly priority: number;
  /** Which attempt it is about, from 1 on: the current, the last or the next one. */
  readonly attempt: number;
  /** The tags of the task; left out when it has none. */
  readonly tags?: readonly string[] | undefined;
  readonly workerId?: string | undefined;
  /** How a task failed, or why it is ready again without a counted attempt. */
  readonly how?: "cancelled" | "expired" | "permanent" | "dead_letter" | "abandoned" | "interrupted" | "unsent" | undefined;
  /** How long until the task is ready again. */
  readonly delaySeconds?: number | undefined;
  /** Of `failed` and `retried`, and of `edited` by a later request. */
  readonly reason?: string | undefined;
  /** Of `progress`: how far the work has come, from 0 to 100. */
  readonly percent?: number | undefined;
  /** Of `progress`: what is being done. */
  readonly text?: string | undefined;
  /** Of `log`: what the worker wrote. */
  readonly lines?: readonly string[] | undefined;
  /** The batch that the task is a member or the callback of. */
  readonly batchId?: string | undefined;
  /** Of `created`: the schedule that created the task. */
  readonly scheduleId?: string | undefined;
  /** Of `created`: the nominal instant of the schedule. */
  readonly scheduledFor?: string | undefined;
  /** Of `created` and `edited`: the unique key of the task. */
  readonly uniqueKey?: string | undefined;
  /** Of `created` and `edited`: the task waits for the end of the task with its unique key. */
  readonly waitsForKey?: true | undefined;
}

/** The result of a task. */
export interface RunResult extends AdminResult {
  readonly event: "result";
  /** The result is longer than 64 KiB; `run.result()` gives it. */
  readonly resultOmitted?: true | undefined;
}

/** Something that happened to a schedule. */
export interface ScheduleEvent {
  readonly event: "schedule_skipped" | "schedule_paused" | "schedule_resumed";
  /** When, as in RFC 3339. */
  readonly time: string;
  readonly tenantId: string;
  readonly scheduleId: string;
  /** The command of its tasks. */
  readonly command: string;
  /** Of `schedule_skipped`: the first nominal instant. */
  readonly scheduledFor?: string | undefined;
  /** Of `schedule_skipped`: how many nominal instants. */
  readonly count?: number | undefined;
  /** Of `schedule_paused`: who paused it. */
  readonly by?: string | undefined;
  /** Of `schedule_skipped` and `schedule_paused`. */
  readonly reason?: string | undefined;
}

/** Why a task is where it is. */
export interface TaskExplanation {
  readonly taskId: string;
  readonly command: string;
  readonly place: "ready" | "delayed" | "held" | "leased" | "dead" | "failed" | "cancelled" | "done";
  /** What holds the task, for programs. */
  readonly rule: "expired" | "delayed" | "held" | "storage" | "lease_quota" | "paused" | "topic_limit" | "topic_rate" | "lane_paused" | "lane_limit" | "lane_rate" | "lane_held" | "no_worker" | "no_worker_for_command" | "workers_busy" | "next" | "leased" | "dead" | "done" | "failed" | "cancelled";
  /** The same for people. */
  readonly why: string;
  /** When its lane or its queue may be claimed from again. */
  readonly nextAt?: string | undefined;
  /** When a delayed task may be claimed. */
  readonly dueAt?: string | undefined;
  /** Who has it. */
  readonly workerId?: string | undefined;
  /** Since when the worker has it. */
  readonly since?: string | undefined;
  /** Until when, unless the lease is extended. */
  readonly leaseUntil?: string | undefined;
  /** Who paused the queue, when and why. */
  readonly paused?: {
    /** Who paused it. */
    readonly by: string;
    /** When. */
    readonly at: string;
    readonly reason?: string | undefined;
  } | undefined;
  /** What comes before a ready task in its queue. */
  readonly ahead?: {
    /** Ready tasks of its queue with a higher priority. */
    readonly higher: number;
    /** Those of its priority that come first: ready for longer or, where the queue has lanes, before its turn. */
    readonly older: number;
    /** There are at least so many; no more were looked at. */
    readonly isAtLeast: boolean;
    /** Several shards have tasks of the queue, and the order between them is unknown. */
    readonly isEstimate?: true | undefined;
  } | undefined;
  /** About when it begins, by how fast attempts of its queue ended lately. */
  readonly startsIn?: {
    readonly fromSeconds: number;
    readonly toSeconds: number;
  } | undefined;
  /** Up to three of the tasks that a callback, or a task with `after`, waits for. Of a large batch, the first members are looked at. */
  readonly waitsFor?: readonly {
    readonly taskId: string;
    readonly command: string;
  }[] | undefined;
  readonly queue: {
    readonly ready: number;
    readonly delayed: number;
    readonly inProgress: number;
    /** Attempts of its queue that ended in the last minute. */
    readonly endedPerMinute?: number | undefined;
  };
  readonly workers: {
    /** Workers with a claim for its queue that waits. */
    readonly asking: number;
    /** Workers with a stream, or with a claim for any queue. */
    readonly connected: number;
  };
}

/** Why a worker gets no tasks. */
export interface WorkerExplanation {
  readonly workerId: string;
  /** Why it gets nothing, for programs. */
  readonly rule: "not_asking" | "lease_quota" | "no_work" | "paused" | "topic_limit" | "work_is_near";
  /** The same for people. */
  readonly why: string;
  readonly leases: number;
  /** Its claims that wait. */
  readonly claims: number;
  readonly streams: number;
  readonly connectedAt?: string | undefined;
  /** The queues that it asks for; left out when it asks for nothing. */
  readonly asksFor?: readonly string[] | "all" | undefined;
  /** What these queues have; the first hundred. */
  readonly queues: readonly {
    readonly command: string;
    readonly ready: number;
    readonly delayed: number;
    readonly rule: "empty" | "delayed" | "paused" | "topic_limit" | "ready";
    readonly inProgress: number;
    /** Who paused the queue, when and why. */
    readonly paused?: {
      /** Who paused it. */
      readonly by: string;
      /** When. */
      readonly at: string;
      readonly reason?: string | undefined;
    } | undefined;
  }[];
}

/**  */
export interface ConnectedWorker {
  readonly workerId: string;
  readonly leases: number;
  readonly oldestLeaseAt?: string | undefined;
  readonly lastSeenAt?: string | undefined;
  readonly streams: number;
  readonly connectedAt?: string | undefined;
  /** The `user-agent` of its newest stream. */
  readonly client?: string | undefined;
}

/**  */
export interface ApiKey {
  readonly id: string;
  readonly name: string;
  readonly tenantId: string;
  readonly role: "none" | "viewer" | "admin" | "operator";
  readonly scopes: readonly string[];
  readonly eventTypes: readonly string[];
  readonly createdAt: string;
  readonly createdBy: string;
  readonly expiresAt?: string | undefined;
  readonly lastUsedAt?: string | undefined;
}

/**  */
export interface ApiKeyOptions {
  /** A name for the key. */
  readonly name: string;
  /** What the key allows, such as `codeq:claim`. */
  readonly scopes?: readonly string[] | undefined;
  /** The commands of the key; empty or `*` for all. */
  readonly eventTypes?: readonly string[] | undefined;
  /** `none`, `viewer`, `admin` or `operator`. */
  readonly role?: string | undefined;
  /** RFC 3339 time: when the key expires; not together with expiresInSeconds. */
  readonly expiresAt?: string | undefined;
  /** Seconds until the key expires; 0 means never. */
  readonly expiresInSeconds?: number | undefined;
}

/**  */
export interface CreatedApiKey extends ApiKey {
  /** The key; it will not be shown again. */
  readonly token: string;
}

/**  */
export interface AuditRecord {
  readonly id: string;
  readonly time: string;
  readonly action: string;
  readonly target?: string | undefined;
  readonly detail?: string | undefined;
  readonly outcome: "ok" | "refused" | "failed";
  readonly code?: string | undefined;
  readonly tenantId?: string | undefined;
  readonly subject?: string | undefined;
  readonly homeTenantId?: string | undefined;
  readonly issuedBy?: string | undefined;
  readonly apiKeyId?: string | undefined;
  readonly address?: string | undefined;
  readonly requestId?: string | undefined;
  readonly count?: number | undefined;
  readonly lastTime?: string | undefined;
}

/** A bulk job as it is now. */
export interface BulkJob {
  readonly id: string;
  readonly action: "replay" | "delete" | "cancel" | "move" | "backfill";
  /** The queue that the tasks are moved to. */
  readonly moveTo?: string | undefined;
  /** Which tasks, as it was asked for. */
  readonly filter: Readonly<Record<string, string>>;
  /** `stopped` is a canary that met too many failures. */
  readonly state: "running" | "paused" | "done" | "aborted" | "stopped";
  /** Why it is paused or has ended before its time. */
  readonly reason?: string | undefined;
  /** Who began it. */
  readonly by: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly ratePerSecond: number;
  /** Tasks that match; left out until they are counted. */
  readonly total?: number | undefined;
  /** Tasks found so far. */
  readonly matched: number;
  /** Tasks changed so far. */
  readonly changed: number;
  /** Tasks that could not be changed. */
  readonly failed: number;
  /** About how long until the job ends, at its rate so far; left out for a canary, which waits for outcomes. */
  readonly etaSeconds?: number | undefined;
  /** The first tasks that could not be changed, with the reason. */
  readonly failures: readonly {
    readonly id: string;
    readonly code: string;
  }[];
  readonly canary?: {
    readonly first: number;
    readonly factor: number;
    readonly failurePercent: number;
    /** The stage whose outcome is waited for. */
    readonly stage?: {
      readonly size: number;
      readonly waiting: number;
      readonly succeeded: number;
      readonly failedAgain: number;
    } | undefined;
  } | undefined;
}

/** How far to go at once. */
export interface BulkOptions {
  /** Maximum number of tasks to change (default: 1000). */
  readonly limit?: number | undefined;
  /** Only count the tasks; change nothing. */
  readonly dryRun?: boolean | undefined;
}

/** What came of a request about many tasks. */
export interface BulkOutcome {
  /** Number of tasks that were changed. */
  readonly changed: number;
  /** Number of tasks that match, up to the limit. */
  readonly matched: number;
  /** The first tasks that were not changed, with the reason. */
  readonly failed: readonly {
    readonly id: string;
    readonly code: string;
  }[];
  /** Whether more tasks may match. */
  readonly hasMore: boolean;
}

/** A schedule as it is put. */
export interface ScheduleBody {
  /** The name of the work. */
  readonly command: string;
  /** Any JSON value; `{}` by default. */
  readonly payload?: unknown | undefined;
  /** From 0 to 9; the highest is delivered first. */
  readonly priority?: number | undefined;
  /** The URL that gets the results. */
  readonly webhook?: string | undefined;
  /** Attempts before a task becomes a dead letter; 0 for what the queue says. */
  readonly maxAttempts?: number | undefined;
  /** How long an attempt may take; 0 for any time. */
  readonly timeoutSeconds?: number | undefined;
  /** How long a task may wait for a worker; 0 for any time. */
  readonly ttlSeconds?: number | undefined;
  /** Short labels of the tasks. */
  readonly tags?: readonly string[] | undefined;
  /** One task at a time for a key of the queue. An instant whose task another task stands in for is skipped. */
  readonly unique?: {
    /** What there is one task of, at a time, in the queue of the tenant. */
    readonly key?: string | undefined;
    /** Until when a task holds its key: `unfinished` (default) until it has ended, `waiting` until a worker begins it. */
    readonly while?: string | undefined;
    /** What a request does that meets the task of its key. `return` (default): the answer is that task. `refuse`: the request is refused. `replace` and `latest`: the waiting task gets the payload, the priority and the time of this request; while a worker runs the task, one more task waits for its end. `cancel`: like `latest`, and the task that runs is cancelled. */
    readonly on?: string | undefined;
    /** How long the key is held at least, such as `5m`, also when the task ends before. */
    readonly for?: string | undefined;
    /** How long later requests may put off the task, such as `1m`. */
    readonly maxWait?: string | undefined;
  } | undefined;
  /** Limits, rates and fair shares apply to the tasks of the queue with the same lane. */
  readonly lane?: string | undefined;
  /** Units of rates and fair shares that each task takes; 0 for 1. */
  readonly cost?: number | undefined;
  /** Five fields (minute, hour, day, month, weekday), or six with seconds in front; or `@daily` and the like. */
  readonly cron?: string | undefined;
  /** Instead of `cron`: elapsed time such as `15m`, counted from 1970-01-01T00:00Z. */
  readonly every?: string | undefined;
  /** With `every`: how much later, such as `5m`. */
  readonly offset?: string | undefined;
  /** The IANA time zone of `cron` and `except`, such as `Europe/Paris`. */
  readonly tz?: string | undefined;
  /** Nothing fires before. */
  readonly from?: string | undefined;
  /** Nothing fires after. */
  readonly until?: string | undefined;
  /** Local dates such as `2026-12-25`, and cron expressions of local times, at which nothing fires. */
  readonly except?: readonly string[] | undefined;
  /** Tasks to create in all; 0 for any number. */
  readonly times?: number | undefined;
  /** While a task of the schedule has not ended: `skip` creates none, `one` lets one wait, `replace` cancels the running one, and `allow` creates another. */
  readonly overlap?: "allow" | "skip" | "one" | "replace" | undefined;
  /** With `replace`: seconds that the worker of a cancelled task gets to stop. */
  readonly graceSeconds?: number | undefined;
  /** After down time: `latest` creates the last task that was missed, `all` every one (at most 1,000), `none` no task that is more than a minute late. */
  readonly catchUp?: "none" | "latest" | "all" | undefined;
  /** How late a task may be created; by default 1h for `latest`. */
  readonly within?: string | undefined;
  /** Tasks are created up to so much later, always the same for the same schedule. */
  readonly spread?: string | undefined;
  /** Pause after so many failed tasks in a row; 0 for never. */
  readonly pauseAfterFailures?: number | undefined;
}

/** A schedule as it is now. */
export interface Schedule extends ScheduleBody {
  readonly id: string;
  /** Grows with every change of what was put. */
  readonly version: number;
  readonly createdAt: string;
  readonly updatedAt: string;
  /** The next nominal instant; missing when there is none. */
  readonly nextAt?: string | undefined;
  /** How long after each nominal instant its task is created, because of `spread`. */
  readonly delayMs?: number | undefined;
  /** The last nominal instant that became a task. */
  readonly lastAt?: string | undefined;
  /** The nominal instant that waits for the running task to end. */
  readonly waitingAt?: string | undefined;
  /** Every nominal instant up to here was fired or skipped. */
  readonly handledAt: string;
  /** Tasks created at nominal instants. */
  readonly fired: number;
  /** Nominal instants that became no task, by the reason. */
  readonly skipped: {
    readonly late: number;
    readonly superseded: number;
    readonly overlap: number;
    readonly replaced: number;
    readonly paused: number;
    readonly quota: number;
    readonly unique: number;
  };
  /** Tasks of the schedule that have not ended. */
  readonly live: number;
  /** Failed tasks in a row. */
  readonly failures?: number | undefined;
  /** Who paused it, and why; `server` after too many failures. */
  readonly paused?: {
    readonly by: string;
    readonly reason?: string | undefined;
    readonly at: string;
  } | undefined;
}

/** A task of a schedule, or nominal instants that were skipped. */
export interface ScheduleRun {
  /** The nominal instant; the first of several for skips. */
  readonly at: string;
  /** The last of several skips. */
  readonly until?: string | undefined;
  /** The task; missing for skips. */
  readonly taskId?: string | undefined;
  /** The task's status. */
  readonly status?: string | undefined;
  /** When the task was created. */
  readonly createdAt?: string | undefined;
  /** `fired` at its time, `manual` by run now, `backfill`, or `skipped`. */
  readonly kind: "fired" | "manual" | "backfill" | "skipped";
  /** Why it was skipped. */
  readonly why?: "late" | "superseded" | "overlap" | "replaced" | "paused" | "quota" | "unique" | undefined;
  /** How many instants; 1 for a task. */
  readonly count: number;
}

/**  */
export interface PlannedRun {
  readonly at: string;
  /** The local time in the zone of the schedule, such as `2026-03-29 03:00`. */
  readonly local: string;
  /** The offset from UTC there and then, such as `+02:00`. */
  readonly offset: string;
  /** What is special about this one: a gap or a repeated hour. */
  readonly note?: string | undefined;
}

/**  */
export interface ScheduleExplanation {
  readonly scheduleId: string;
  /** The instant that was asked about. */
  readonly at: string;
  /** The nominal instant that is meant. */
  readonly nominalAt?: string | undefined;
  /** The outcome. */
  readonly outcome: "fired" | "skipped" | "waiting" | "planned" | "due" | "paused" | "not_nominal" | "unknown";
  /** Why it was skipped. */
  readonly why?: "late" | "superseded" | "overlap" | "replaced" | "paused" | "quota" | "unique" | undefined;
  readonly taskId?: string | undefined;
  /** The same in a sentence. */
  readonly text: string;
}
