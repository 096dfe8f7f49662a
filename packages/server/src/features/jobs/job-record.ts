/**
 * A bulk job as text: its action and filter, its progress, and its outcome. A step is recorded before it
 * begins, so that after a crash it is known what may have been done already.
 */
import { put, remove } from "@codeq/engine";
import type { TaskId, TenantId } from "@codeq/queue";
import type { RecordKind } from "../../core/control/control-records.ts";
import { parseRecord } from "../../core/records/parse-record.ts";
import { jobKey, jobsPrefix } from "../../core/store/keys.ts";
import type { RecordText, RecordWrite } from "../../core/store/store.ts";

export type JobAction =
  | { readonly kind: "replay" }
  | { readonly kind: "delete" }
  | { readonly kind: "cancel"; readonly graceMs: number }
  /** Moves tasks to another queue. */
  | { readonly kind: "move"; readonly command: string };

/** `stopped`: the job stopped itself, because too many tasks failed again. */
export type JobState = "running" | "paused" | "done" | "aborted" | "stopped";

/** Replays few tasks first, and more when enough of them succeed. */
export interface Canary {
  readonly first: number;
  readonly factor: number;
  /** The job stops when more tasks of a stage fail. */
  readonly failurePercentMax: number;
}

export interface JobPiece {
  readonly ids: readonly TaskId[];
  /** The action was done; a canary keeps the tasks whose outcome is not known yet. */
  readonly isActedOn: boolean;
  /** For a canary that a quota has paused: the tasks of the same stage that are already done. */
  readonly before?: readonly TaskId[];
  /** For a canary: how many tasks there were, and their outcomes so far. */
  readonly size: number;
  readonly succeeded: number;
  readonly failedAgain: number;
}

export interface BulkJob {
  readonly id: string;
  readonly tenantId: TenantId;
  readonly action: JobAction;
  /** The filter of the broker, which is opaque here. */
  readonly filter: object;
  /** The filter as the caller wrote it. */
  readonly asked: Readonly<Record<string, string | undefined>>;
  readonly perSecond: number;
  readonly canary: Canary | undefined;
  readonly by: string;
  readonly createdMs: number;
  readonly updatedMs: number;
  readonly state: JobState;
  /** Why it is paused or has ended; empty while it runs. */
  readonly reason: string;
  /** All tasks up to this id were visited. */
  readonly after: string;
  /** Whether there are no more tasks behind it. */
  readonly isLookedThrough: boolean;
  readonly piece: JobPiece | undefined;
  readonly matched: number;
  readonly changed: number;
  readonly failed: number;
  /** The first tasks that could not be changed. */
  readonly failures: readonly { readonly id: TaskId; readonly code: string }[];
}

export function writeOfJob(job: BulkJob): RecordWrite {
  return put(jobKey(job.tenantId, job.id), JSON.stringify(job));
}

/** The record of the job, for a commit that expects it to be unchanged. */
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
