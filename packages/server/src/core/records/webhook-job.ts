/** Callbacks that have to be sent, ordered by due time. */
import type { TaskId } from "@codeq/queue";
import { endOf, sortable, webhookPrefix } from "../store/keys.ts";

export interface WebhookJob {
  /** Orders the jobs by time and task; opaque outside the store. */
  readonly key: string;
  readonly dueMs: number;
  readonly id: TaskId;
  /** How many tries there were. */
  readonly tries: number;
}

/** Bounds before the first job and after the last. */
export const firstWebhook: string = webhookPrefix;
export const lastWebhook: string = endOf(webhookPrefix);

/** The bound before the first job that is due at this time. */
export function webhooksFrom(dueMs: number): string {
  return webhookPrefix + sortable(dueMs);
}
