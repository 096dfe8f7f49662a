/** What operations ask about webhooks, and the answers. All values travel as JSON. */
import type { TaskId, TenantId } from "@codeq/queue";
import type { DeliveryLog, DeliveryState, DeliveryTry } from "../records/delivery-record.ts";
import type { FailingEndpoint } from "../records/endpoint-record.ts";

/** `none` of a task without a webhook, `pending` of one that has not ended. */
export type WebhookState = "none" | "pending" | DeliveryState;

export interface TaskDeliveries extends Omit<DeliveryLog, "state" | "nextMs"> {
  readonly id: TaskId;
  readonly url: string;
  readonly state: WebhookState;
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

/** An endpoint began to fail, was disabled, or took a webhook again. */
export interface EndpointChange {
  readonly tenantId: TenantId;
  readonly url: string;
  /** Null when nothing is known against it any more. */
  readonly endpoint: FailingEndpoint | null;
}
