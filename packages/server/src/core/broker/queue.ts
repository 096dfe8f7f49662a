/**
 * The interface of operations and transports to the running queue: one broker in this thread, or a router
 * over several brokers elsewhere.
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
import type { WaitingWorker } from "../search/explained.ts";
import type { TaskFilter, TaskPlace } from "../search/task-filter.ts";
import type { Flow } from "../series/flow.ts";
import type { QueueName } from "../store/store.ts";
import type { Broker } from "./broker.ts";
import type { Claim } from "./claim.ts";
import type { brokerRouting, Offered, webhookRouting } from "./routing.ts";
import type {
  ClaimedTask,
  Enqueued,
  OwnedTask,
  Submitted,
  TaskOutcome,
  TaskRefusal,
  Waiter,
} from "./verbs.ts";
import type { Webhooks } from "./webhooks.ts";

/** What operations ask for without hurry; the comments are at the methods of the broker. */
type Asked = Offered<
  Pick<
    Broker,
    | keyof typeof brokerRouting
    | "act"
    | "attach"
    | "cleanUp"
    | "deleteTopic"
    | "explain"
    | "putTopic"
  >
>;
type AskedWebhooks = Offered<Pick<Webhooks, keyof typeof webhookRouting | "changeSecrets">>;

export interface Queue extends Asked {
  /** Whether it takes changes; of several shards the best, since the others refuse only what is theirs. */
  readonly state: EngineState;
  /** True when changes arrive faster than they can be written for so long that memory fills. */
  readonly isOverloaded: boolean;
  /** A shard does not answer: what is counted now is without its tasks. */
  readonly isPartial: boolean;
  /** How each of several shards is; empty for a queue without. */
  readonly shards: readonly ShardState[];

  enqueue(input: NewTask, waiter: Waiter<Enqueued>, item?: number): void;
  claim(claim: Claim): void;
  /** Nobody waits for the answer of the claim any more. */
  cancelClaim(claim: Claim): void;
  heartbeat(of: OwnedTask, beat: Heartbeat, waiter: Waiter<Extended>, item?: number): void;
  nack(of: OwnedTask, request: NackRequest, waiter: Waiter<Returned>, item?: number): void;
  abandon(of: OwnedTask, request: AbandonRequest, waiter: Waiter<Returned>, item?: number): void;
  submit(of: OwnedTask, submission: Submission, waiter: Waiter<Submitted>, item?: number): void;
  /** Takes back a claim whose worker was gone before the task could be sent to it. */
  release(of: OwnedTask): void;

  /** The task as everybody may see it; undefined when it is unknown or somebody else's. */
  get(tenantId: TenantId, id: TaskId): Promise<ClaimedTask | undefined>;
  /** Undefined when the task is unknown or somebody else's. */
  outcome(tenantId: TenantId, id: TaskId): Promise<TaskOutcome | undefined>;
  /** Undefined while there is none. */
  result(tenantId: TenantId, id: TaskId): Promise<Result | undefined>;
  /** Resolves when the task may have a result, the time is up or the reader goes away. */
  awaitResult(tenantId: TenantId, id: TaskId, wait: ResultWait): Promise<"waited" | "crowded">;

  /** What so many more bytes of the tenant would exceed. */
  exceededByBytes(tenantId: TenantId, bytes: number): MaybePromise<Exceeded | undefined>;
  /** Which workers of the tenant wait for tasks. */
  waitingWorkers(tenantId: TenantId): readonly WaitingWorker[];
  /** What becomes of the results that are posted. */
  readonly webhooks: AskedWebhooks;

  /**
   * Calls back with queues whose tasks have moved, before that is durable; undefined for nobody. What is
   * told is a hint for those who then ask for work.
   */
  watchWork(hear: ((queue: QueueWork) => void) | undefined): void;
  /** What can be claimed, as far as is known here; undefined for nothing. */
  work(of: QueueName): QueueWork | undefined;
  worksOf(tenantId: TenantId): Iterable<QueueWork>;

  /** A backup of every shard, one after the other, for somebody who stores it elsewhere. */
  readBackup(reading: BackupReading): AsyncGenerator<Buffer>;

  /** Whether so many claims wait that no other of the tenant may. */
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

export interface QueueWork extends QueueName {
  /** Tasks that are ready. */
  readonly readyTotal: number;
  /** The highest priority that has tasks to claim; -1 when nothing can be claimed. */
  readonly topPriority: number;
}

export interface ShardState {
  readonly shard: number;
  readonly state: EngineState;
  /** Why it takes nothing. */
  readonly error: string | undefined;
}

export interface Heartbeat {
  readonly leaseMs: number;
  /** What the worker says about the task. */
  readonly report?: Report | undefined;
}

export interface Extended {
  readonly untilMs: number;
  /** Somebody does not want the task any more; its worker should stop. */
  readonly isCancelled: boolean;
}

export interface AbandonRequest {
  readonly interrupted: boolean;
}

export type Attached =
  /** The file of the same name that it took the place of. */
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
  /** What happened in the last minute, about. */
  readonly flow: Flow;
  /** When the oldest ready task was created; undefined when none is ready, and without ages. */
  readonly oldestMs: number | undefined;
}

/** What a worker holds. */
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
  /** `next` of the page before; empty for the first. */
  readonly after: string;
  readonly limit: number;
}

export type TaskOrder = "newest" | "oldest";

export interface FoundTasks {
  readonly tasks: readonly Task[];
  /** How many tasks were looked at. */
  readonly scanned: number;
  /** Where to go on; undefined when there is nothing more. */
  readonly next: string | undefined;
  /** How many there are, where a counter knows. */
  readonly total: number | undefined;
}
