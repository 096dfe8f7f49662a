/**
 * The interface of operations to the callbacks of a queue, with one shard or several. All values travel as
 * JSON.
 */
import type { TaskId, TenantId } from "@codeq/queue";
import type { MaybePromise } from "../maybe-promise.ts";
import type { DeliveryLog, DeliveryState, DeliveryTry } from "../store/delivery-record.ts";
import type { FailingEndpoint } from "../store/endpoint-record.ts";
import type { SecretsChange, SigningSecret } from "../store/signing-record.ts";
import type { TaskOf } from "./task-actions.ts";

export interface QueueWebhooks {
  /** Null when the task is unknown or somebody else's. */
  deliveries(of: TaskOf): MaybePromise<TaskDeliveries | null>;
  /** Callbacks that were given up, the earliest first. */
  failed(wanted: WantedFailures): Promise<FailedPage>;
  /** Sends results once more, with all tries; answers for each task in order. */
  redeliver(tenantId: TenantId, ids: readonly TaskId[]): Promise<readonly Redelivered[]>;
  /** Endpoints that fail or are disabled. */
  endpoints(tenantId: TenantId): MaybePromise<readonly FailingEndpoint[]>;
  /** Callbacks go to the endpoint again; false when nothing is known against it. */
  enable(tenantId: TenantId, url: string): Promise<boolean>;
  /** The secrets of the tenant in the store, the newest first. */
  secrets(tenantId: TenantId): MaybePromise<readonly SigningSecret[]>;
  /** False when there is no secret of this id to revoke. */
  changeSecrets(tenantId: TenantId, change: SecretsChange): Promise<boolean>;
}

/** `none` of a task without a webhook, `pending` of one that has not ended. */
export type CallbackState = "none" | "pending" | DeliveryState;

export interface TaskDeliveries extends Omit<DeliveryLog, "state" | "nextMs"> {
  readonly id: TaskId;
  readonly url: string;
  readonly state: CallbackState;
  /** When the next try is due; null when there is none. */
  readonly nextMs: number | null;
}

export interface WantedFailures {
  readonly tenantId: TenantId;
  readonly sinceMs: number;
  /** `next` of the page before; empty for the first. */
  readonly after: string;
  readonly limit: number;
}

export interface FailedDelivery {
  readonly id: TaskId;
  readonly command: string;
  readonly url: string;
  /** When it was given up. */
  readonly atMs: number;
  readonly why: string;
  readonly total: number;
  readonly last: DeliveryTry | null;
  /** Where it stands in the order. */
  readonly position: string;
}

export interface FailedPage {
  readonly failed: readonly FailedDelivery[];
  /** Where to go on; null when there is nothing more. */
  readonly next: string | null;
}

export type Redelivered =
  | "planned"
  | "task_unknown"
  | "no_webhook"
  | "not_ended"
  | "endpoint_disabled";

/** An endpoint began to fail, was disabled, or took a callback again. */
export interface EndpointChange {
  readonly tenantId: TenantId;
  readonly url: string;
  /** Null when nothing is known against it any more. */
  readonly endpoint: FailingEndpoint | null;
}
