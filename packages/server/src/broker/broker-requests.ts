/** What the broker is asked and what it answers. */
import type { Engine } from "@codeq/engine";
import type {
  NewTask,
  Outcome,
  Owner,
  Result,
  Retention,
  RetryPolicy,
  Task,
  TaskId,
  TenantId,
} from "@codeq/queue";
import type { Clock } from "../clock.ts";
import type { Exceeded, Quotas } from "../config/quotas.ts";
import type { TaskIds } from "../task-ids.ts";
import type { Feed } from "../telemetry/feed.ts";

export interface BrokerOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly ids: TaskIds;
  /** Uniform in [0, 1). */
  readonly draw: () => number;
  readonly policy: RetryPolicy;
  readonly retention: Retention;
  readonly delayedInMemoryMax: number;
  readonly quotas: Quotas;
  readonly feed: Feed;
}

/** A decision, and what to wait for before telling anybody. */
export interface Decided<T> {
  readonly value: T;
  readonly done: Promise<void>;
}

/** A task was made, or the one that its idempotency key stands for was found. */
export type Enqueued =
  | Outcome<Decided<{ task: Task; replayed: boolean }>, "idempotency_key_reused">
  | { readonly ok: false; readonly code: "quota_exceeded"; readonly exceeded: Exceeded };

export type TaskRefusal = "task_unknown" | "not_owner" | "not_in_progress";

/** A task, and who speaks for it. */
export interface OwnedTask {
  readonly tenantId: TenantId;
  readonly id: TaskId;
  readonly owner: Owner;
}

export interface NackRequest {
  readonly delaySeconds: number;
  readonly reason: string;
}

export interface EnqueueRequest extends Omit<NewTask, "id" | "storedBytes"> {
  readonly payload: string;
  /** Identifies the payload; only used together with an idempotency key. */
  readonly payloadHash: string;
}

export interface Submission {
  readonly how: "completed" | "failed";
  readonly resultJson: string;
  readonly error: string;
  readonly artifacts: Result["artifacts"];
}

/** The result that is kept, of this submission or of the one that it repeats. */
export type Submitted = Outcome<
  Decided<{ task: Task; result: Result; repeated: boolean }>,
  TaskRefusal
>;

/** What decides how a task comes back from a worker. */
export interface ComebackTerms {
  readonly nowMs: number;
  readonly seq: number;
  readonly draw: number;
  readonly policy: RetryPolicy;
  readonly retention: Retention;
}
