/**
 * The interface of operations and transports to the broker: one in this thread, or a router over several shards.
 */
import type { EngineState } from "@codeq/engine";
import type {
  Artifact,
  NackRequest,
  NewTask,
  Report,
  Result,
  Returned,
  Submission,
  Task,
  TaskId,
  TenantId,
  WorkerId,
} from "@codeq/queue";
import type { Exceeded } from "../../config/quotas.ts";
import type { BackupReading } from "../backup/backups.ts";
import type { MaybePromise } from "../maybe-promise.ts";
import type { Counts } from "../records/counts.ts";
import type { Topic } from "../records/topic-record.ts";
import type { LaneLook, WaitingWorker } from "../search/explained.ts";
import type { TaskFilter, TaskPlace } from "../search/task-filter.ts";
import type { Flow } from "../series/flow.ts";
import type { QueueName } from "../store/store.ts";
import type { Batches } from "./batches.ts";
import type { Claim } from "./claims/claim.ts";
import type {
  batchRouting,
  brokerRouting,
  Offered,
  scheduleRouting,
  webhookRouting,
} from "./routing.ts";
import type { Schedules } from "./schedules.ts";
import type { ShardBroker } from "./shard-broker.ts";
import type {
  ClaimedTask,
  Enqueued,
  OwnedTask,
  Submitted,
  TaskAndResult,
  TaskRefusal,
  Waiter,
} from "./verbs.ts";
import type { Webhooks } from "./webhooks.ts";

/** Verbs that are not on the path of every task; see the methods of the class for their meaning. */
type Asked = Offered<
  Pick<
    ShardBroker,
    | keyof typeof brokerRouting
    | "act"
    | "attach"
    | "cleanUp"
    | "deleteTopic"
    | "entryOf"
    | "explain"
    | "putTopic"
  >
>;
type AskedSchedules = Offered<Pick<Schedules, keyof typeof scheduleRouting>>;
type AskedBatches = Offered<Pick<Batches, keyof typeof batchRouting>>;
type AskedWebhooks = Offered<Pick<Webhooks, keyof typeof webhookRouting | "changeSecrets">>;

export interface Broker extends Asked {
  /** Whether the storage accepts changes; of several shards the best state, since each refuses only its own calls. */
  readonly state: EngineState;
  /** Changes have arrived faster than they can be written for so long that memory fills. */
  readonly isOverloaded: boolean;
  /** A shard does not answer, so its tasks are missing in counts. */
  readonly isPartial: boolean;
  /** The state of each shard; empty without shards. */
  readonly shards: readonly ShardState[];

  enqueue(input: NewTask, waiter: Waiter<Enqueued>, item?: number): void;
  claim(claim: Claim): void;
  /** Ends the wait of a claim whose caller has gone. */
  cancelClaim(claim: Claim): void;
  heartbeat(of: OwnedTask, beat: Heartbeat, waiter: Waiter<Extended>, item?: number): void;
  nack(of: OwnedTask, request: NackRequest, waiter: Waiter<Returned>, item?: number): void;
  abandon(of: OwnedTask, request: AbandonRequest, waiter: Waiter<Returned>, item?: number): void;
  submit(of: OwnedTask, submission: Submission, waiter: Waiter<Submitted>, item?: number): void;
  /** Takes back a claimed task whose worker was gone before the task could be sent. */
  release(of: OwnedTask): void;

  /** The durable state of the task; undefined when it is unknown or belongs to another tenant. */
  get(tenantId: TenantId, id: TaskId): Promise<ClaimedTask | undefined>;
  /** Undefined when the task is unknown or belongs to another tenant. */
  outcome(tenantId: TenantId, id: TaskId): Promise<TaskAndResult | undefined>;
  /** Undefined while the task has no result. */
  result(tenantId: TenantId, id: TaskId): Promise<Result | undefined>;
  /** Resolves when the task may have a result, the time is up or the reader goes away. */
  awaitResult(tenantId: TenantId, id: TaskId, wait: ResultWait): Promise<"waited" | "crowded">;

  /** What so many more bytes of the tenant would exceed. */
  exceededByBytes(tenantId: TenantId, bytes: number): MaybePromise<Exceeded | undefined>;
  /** Which workers of the tenant wait for tasks. */
  waitingWorkers(tenantId: TenantId): readonly WaitingWorker[];
  /** Results that are posted to URLs. */
  readonly webhooks: AskedWebhooks;
  /** Tasks that come back. */
  readonly schedules: AskedSchedules;
  /** Tasks with one callback. */
  readonly batches: AskedBatches;

  /**
   * Calls back with queues whose tasks have moved, before that is durable; undefined stops the calls. A call is a
   * hint to ask for work.
   */
  watchWork(hear: ((queue: QueueWork) => void) | undefined): void;
  /** The work of a queue as far as this broker has heard; undefined when there is none. */
  work(of: QueueName): QueueWork | undefined;
  worksOf(tenantId: TenantId): Iterable<QueueWork>;

  /** A backup of every shard, one after the other, as bytes for a client that stores them elsewhere. */
  readBackup(reading: BackupReading): AsyncGenerator<Buffer>;

  /** Whether so many claims wait that the tenant may not have another waiting claim. */
  isCrowded(tenantId: TenantId): boolean;
  /** What one more lease of the tenant would exceed. */
  exceededByLease(tenantId: TenantId): Exceeded | undefined;
  /** Ends all waits, for a shutdown. */
  stopWaiting(): void;
}

export interface PutTopic {
  readonly topic: Topic;
  readonly isNew: boolean;
}

export interface WantedLanes {
  /** Only this lane. */
  readonly lane: string | undefined;
  readonly limit: number;
}

export interface FoundLanes {
  readonly lanes: readonly LaneLook[];
  /** How many lanes have tasks, times or limits. */
  readonly total: number;
  /** What was claimed with a lane of late. */
  readonly recentUnits: number;
}

export interface QueueWork extends QueueName {
  /** Tasks that are ready. */
  readonly readyTotal: number;
  /** The highest priority that has tasks to claim; -1 when nothing can be claimed. */
  readonly topPriority: number;
  /** Of all that is claimed from the queue: 1, or the weights of its lanes that claims may take from. */
  readonly shares: number;
}

export interface ShardState {
  readonly shard: number;
  readonly state: EngineState;
  /** Why the shard accepts no changes. */
  readonly error: string | undefined;
}

export interface Heartbeat {
  readonly leaseMs: number;
  /** The progress and log lines that the worker reports. */
  readonly report?: Report | undefined;
}

export interface Extended {
  readonly untilMs: number;
  /** The task was cancelled; its worker should stop. */
  readonly isCancelled: boolean;
}

export interface AbandonRequest {
  readonly interrupted: boolean;
}

export type Attached =
  /** The file of the same name that was replaced. */
  | { readonly ok: true; readonly replaced: Artifact | null }
  | { readonly ok: false; readonly code: TaskRefusal | "too_many_artifacts" }
  | { readonly ok: false; readonly code: "quota_exceeded"; readonly exceeded: Exceeded };

export type FoundPlace = TaskPlace | "gone";

export type MayFinish = { readonly isRepeat: boolean } | TaskRefusal;

export interface ResultWait {
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
}

export interface QueueCounts {
  /** The queue's name: the command in lower case. */
  readonly queue: string;
  readonly counts: Counts;
  /** An estimate for the last minute. */
  readonly flow: Flow;
  /** When the oldest ready task was created; undefined when none is ready, and without ages. */
  readonly oldestMs: number | undefined;
}

/** The leases of a worker. */
export interface WorkerLeases {
  readonly workerId: WorkerId;
  readonly leases: number;
  /** When the oldest of its leases began, and when it last claimed or extended one of them. */
  readonly oldestMs: number;
  readonly seenMs: number;
}

export interface TenantLeases {
  readonly workers: readonly WorkerLeases[];
  /** There are more leases than were looked at. */
  readonly isPartial: boolean;
}

export interface CleanUp {
  readonly tenantId: TenantId;
  readonly beforeMs: number;
  readonly limit: number;
}

export interface WantedTasks {
  readonly tenantId: TenantId;
  readonly filter: TaskFilter;
  readonly order: TaskOrder;
  /** `next` of the previous page; empty for the first page. */
  readonly after: string;
  readonly limit: number;
}

export type TaskOrder = "newest" | "oldest";

export interface FoundTasks {
  readonly tasks: readonly Task[];
  /** How many tasks were looked at. */
  readonly scanned: number;
  /** Where the next page begins; undefined after the last page. */
  readonly next: string | undefined;
  /** The number of matches, where a counter has it. */
  readonly total: number | undefined;
}
