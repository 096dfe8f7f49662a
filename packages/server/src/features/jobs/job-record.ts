/**
 * A bulk job as text: its action and filter, its progress, and its outcome. A step is recorded before it
 * begins, so that after a crash it is known what may have been done already.
 */
import { put, remove } from "@codeq/engine";
import type { Job, KeptOf } from "@codeq/protocol/api";
import { isFailure, queueOf, type Task, type TaskId, type TenantId } from "@codeq/queue";
import type { RecordKind } from "../../core/control/control-records.ts";
import type { TaskFilter } from "../../core/search/task-filter.ts";
import { jobKey, jobsPrefix } from "../../core/store/keys.ts";
import { parseRecord } from "../../core/store/row-of.ts";
import type { RecordText, RecordWrite } from "../../core/store/store.ts";

export type JobAction =
  | { readonly kind: "replay" }
  | { readonly kind: "delete" }
  | { readonly kind: "cancel"; readonly graceMs: number }
  /** Moves tasks to another queue. */
  | { readonly kind: "move"; readonly command: string }
  /** Creates tasks of a schedule for nominal instants, which stand for the ids of tasks in the pieces of the job. */
  | {
      readonly kind: "backfill";
      readonly schedule: string;
      readonly fromMs: number;
      readonly untilMs: number;
    };

type Shown = KeptOf<typeof Job>;
/** Replays few tasks first, and more when enough of them succeed. */
export type Canary = Omit<NonNullable<Shown["canary"]>, "stage">;

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

export interface BulkJob extends Omit<Shown, "action" | "moveTo" | "canary" | "etaSeconds"> {
  readonly tenantId: TenantId;
  readonly action: JobAction;
  /** What was asked for, as the broker has it. */
  readonly filter: TaskFilter;
  readonly canary: Canary | undefined;
  /** All tasks up to this id were visited. */
  readonly after: string;
  /** Whether there are no more tasks behind it. */
  readonly isLookedThrough: boolean;
  readonly piece: JobPiece | undefined;
  /** While `total` is not known: how many match up to this id. */
  readonly counted: number;
  readonly countedTo: string;
  /** How long the tasks so far have taken, without pauses. */
  readonly workedMs: number;
}

/** Whether the action can do anything to a task where it is. */
export function isMeant(task: Task, action: JobAction): boolean {
  const { place, command } = task;
  const hasEnded = place.in === "dead" || place.in === "done";
  switch (action.kind) {
    case "replay":
      return isFailure(task);
    case "delete":
      return hasEnded;
    case "cancel":
      return !hasEnded;
    case "backfill":
      return false;
    case "move": {
      const isWaiting = place.in === "ready" || place.in === "delayed";
      return isWaiting && queueOf(command) !== queueOf(action.command);
    }
  }
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
