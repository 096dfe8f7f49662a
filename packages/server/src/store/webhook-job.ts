/** Callbacks that have to be sent, ordered by due time. */
import type { TaskId } from "@codeq/queue";
import { endOf, sortable, webhookPrefix } from "./keys.ts";

export interface WebhookJob {
  /** Orders the jobs, by time and task; compared, and handed back to the store, but not looked into. */
  readonly key: string;
  readonly dueMs: number;
  readonly id: TaskId;
  /** How often it was tried. */
  readonly tries: number;
}

/** Before the first job and behind the last. */
export const firstWebhook: string = webhookPrefix;
export const lastWebhook: string = endOf(webhookPrefix);

/** Before the first job that is due at this time. */
export function webhooksFrom(dueMs: number): string {
  return webhookPrefix + sortable(dueMs);
}
