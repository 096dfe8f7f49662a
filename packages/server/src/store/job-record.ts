/**
 * A bulk job as text: its action and filter, its progress, and its outcome. A step is recorded before it
 * begins, so that after a crash it is known what may have been done already.
 */
import { put, remove } from "@codeq/engine";
import type { TaskId, TenantId } from "@codeq/queue";
import type { RecordKind } from "./control-records.ts";
import { jobKey, jobsPrefix } from "./keys.ts";
import { parseRecord } from "./parse-record.ts";
import type { RecordText, RecordWrite } from "./store.ts";

export type JobAction =
  | { readonly kind: "replay" }
  | { readonly kind: "delete" }
  | { readonly kind: "cancel"; readonly graceMs: number }
  /** To another queue. */
  | { readonly kind: "move"; readonly command: string };

/** `stopped` by itself, because too much failed again; the others as somebody wanted. */
export type JobState = "running" | "paused" | "done" | "aborted" | "stopped";

/** Replays few tasks first, and more when enough of them succeed. */
export interface Canary {
  readonly first: number;
  readonly factor: number;
  /** With more failures among the tasks of a stage the job stops. */
  readonly failurePercentMax: number;
}

export interface JobPiece {
  readonly ids: readonly TaskId[];
  /** They were acted on; of a canary those are left whose outcome is not known. */
  readonly isActedOn: boolean;
  /** Of a canary that a quota has paused: those of the same stage that were acted on already. */
  readonly before?: readonly TaskId[];
  /** How many there were, and what is known of them; of a canary. */
  readonly size: number;
  readonly succeeded: number;
  readonly failedAgain: number;
}

export interface BulkJob {
  readonly id: string;
  readonly tenantId: TenantId;
  readonly action: JobAction;
  /** As the broker understands it; not looked into here. */
  readonly filter: object;
  /** The filter as it was written. */
  readonly asked: Readonly<Record<string, string | undefined>>;
  readonly perSecond: number;
  readonly canary: Canary | undefined;
  readonly by: string;
  readonly createdMs: number;
  readonly updatedMs: number;
  readonly state: JobState;
  /** Why it is paused or has ended; empty while it runs. */
  readonly reason: string;
  /** Everything up to this id was looked at. */
  readonly after: string;
  /** Whether there is nothing behind it. */
  readonly isLookedThrough: boolean;
  readonly piece: JobPiece | undefined;
  readonly matched: number;
  readonly changed: number;
  readonly failed: number;
  /** The first of those that could not be changed. */
  readonly failures: readonly { readonly id: TaskId; readonly code: string }[];
}

export function writeOfJob(job: BulkJob): RecordWrite {
  return put(jobKey(job.tenantId, job.id), JSON.stringify(job));
}

/** The record of a job as it is known. */
export function expectedJob(job: BulkJob): RecordText {
  return { key: jobKey(job.tenantId, job.id), text: JSON.stringify(job) };
}

export function removalOfJob({ tenantId, id }: BulkJob): RecordWrite {
  return remove(jobKey(tenantId, id));
}

export const jobRecords: RecordKind<BulkJob> = { prefix: jobsPrefix, decode: decodeJob };

function decodeJob(text: string): BulkJob | undefined {
  const job = parseRecord(text) as BulkJob | null | undefined;
  return typeof job?.id === "string" && typeof job.tenantId === "string" ? job : undefined;
}
