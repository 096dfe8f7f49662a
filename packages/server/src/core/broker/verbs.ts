/**
 * The calls that a broker takes and their answers. A verb decides at once and answers through its waiter,
 * once: with the answer when the decision is durable, or with the reason of its failure. Answers come in
 * commit order, which may differ from the order of the calls.
 */
import type { FaultError } from "@codeq/engine";
import type { Owner, Result, Task, TaskId, TenantId } from "@codeq/queue";
import type { Exceeded } from "../../config/quotas.ts";
import type { AfterRefusal, MemberRefusal } from "./batches.ts";

/** Why a verb was not carried out: the rules refused it, or the storage accepts no writes. */
export type Refused =
  | { readonly code: TaskRefusal | MemberRefusal | AfterRefusal }
  | KeyReused
  | { readonly code: "quota_exceeded"; readonly exceeded: Exceeded }
  | NotAllowedPriority
  | CostAboveBurst
  /** The task has a batch and a lane, which may be in two shards. */
  | { readonly code: "placement_conflict" }
  | FaultError;

/** The idempotency key or the unique key belongs to the task of another request. */
export interface KeyReused {
  readonly code: "idempotency_key_reused" | "unique_key_held";
  readonly key: string;
  readonly taskId: TaskId;
}

/** The topic of the queue does not allow the priority. */
export interface NotAllowedPriority {
  readonly code: "priority_not_allowed";
  readonly priority: number;
  readonly tiers: readonly number[];
}

/** No claim could ever pay for the task. */
export interface CostAboveBurst {
  readonly code: "cost_above_burst";
  readonly cost: number;
  readonly burst: number;
}

export type TaskRefusal = "task_unknown" | "not_owner" | "not_in_progress";

/** Receives an answer; `item` is the number that came with the call, for callers with several calls. */
export interface Waiter<Answer> {
  durable(answer: Answer, item: number): void;
  refused(why: Refused, item: number): void;
}

/** A task, and the worker that reports on it. */
export interface OwnedTask {
  readonly tenantId: TenantId;
  readonly id: TaskId;
  readonly owner: Owner;
}

/** The new task, or the task that already has the idempotency key. */
export interface Enqueued {
  readonly task: Task;
  readonly replayed: boolean;
  /** The task is there for an earlier request with the same unique key. */
  readonly deduplicated: boolean;
}

export interface ClaimedTask {
  readonly task: Task;
  readonly payload: string;
}

/** A task without its payload, and its result once it has ended. */
export interface TaskAndResult {
  readonly task: Task;
  readonly result: Result | undefined;
}

/** The stored result, of this submission or of the submission that it repeats. */
export interface Submitted {
  readonly task: Task;
  readonly result: Result;
  readonly repeated: boolean;
}

/** The URLs of artifacts that a task names; none while it has none. */
export type References = readonly string[] | "task is gone" | "cannot be read";
