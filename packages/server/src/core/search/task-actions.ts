/** Actions of administrators on single tasks. An action travels to shards as JSON, and so does its answer. */
import {
  type Change,
  cancel,
  changeOf,
  type Edit,
  edit,
  type Outcome,
  type Retention,
  replay,
  type Task,
  type TaskId,
  type TenantId,
} from "@codeq/queue";
import type { Exceeded } from "../../config/quotas.ts";
import type { TenantQuotas } from "../broker/tenant-quotas.ts";
import type { NotAllowedPriority } from "../broker/verbs.ts";
import { isShort } from "../store/short-texts.ts";

export type TaskAction =
  /** Gives a dead letter all its attempts again. */
  | { readonly kind: "replay"; readonly job?: string | undefined }
  /** Makes a new task of one that has ended, with some things changed. */
  | { readonly kind: "replayAs"; readonly changes: ReplayChanges }
  /** Ends a task that waits; one that a worker has gets so long to stop. */
  | { readonly kind: "cancel"; readonly graceMs: number }
  /** Changes a task that waits. */
  | { readonly kind: "edit"; readonly edit: TaskEdit }
  /** Removes a task that has ended, before its retention does. */
  | { readonly kind: "delete" };

/** What is left out stays as it is. */
export interface TaskEdit extends Omit<Edit, "payload"> {
  /** JSON text, and how many bytes it has. */
  readonly payload?: { readonly text: string; readonly bytes: number } | undefined;
}

/** What is different in the new task; what is not given is as in the old one. */
export interface ReplayChanges {
  readonly command?: string | undefined;
  readonly priority?: number | undefined;
  readonly maxAttempts?: number | undefined;
  /** When it may be claimed; at once when it is not given. */
  readonly visibleMs?: number | undefined;
  /** JSON text. */
  readonly payload?: string | undefined;
}

export interface TaskOf {
  readonly tenantId: TenantId;
  readonly id: TaskId;
}

export type ActRefusal =
  | "task_unknown"
  | "not_dead"
  | "not_ended"
  | "has_ended"
  | "not_waiting"
  | "already_done";

export type Acted =
  /** The task as it is now, or as it was when it is gone. */
  | { readonly ok: true; readonly task: Task }
  | { readonly ok: false; readonly code: ActRefusal }
  | { readonly ok: false; readonly code: "quota_exceeded"; readonly exceeded: Exceeded }
  | (NotAllowedPriority & { readonly ok: false });

export interface ActTerms {
  readonly nowMs: number;
  readonly seq: number;
  readonly retention: Retention;
}

/** The change that an action makes of a task; from the same to the same when there is none. */
export function decide(
  task: Task,
  action: Exclude<TaskAction, { readonly kind: "delete" | "replayAs" }>,
  terms: ActTerms,
): Outcome<Change, ActRefusal> {
  switch (action.kind) {
    case "replay": {
      const outcome = replay(task, { ...terms, job: action.job });
      return outcome.ok ? { ok: true, value: changeOf(task, outcome.value, "replayed") } : outcome;
    }
    case "cancel": {
      const outcome = cancel(task, { ...terms, graceMs: action.graceMs });
      if (!outcome.ok) return outcome;
      const hasEnded = outcome.value.place.in === "done";
      const change = changeOf(task, outcome.value, "cancelled");
      return { ok: true, value: { ...change, keep: !hasEnded } };
    }
    case "edit":
      return decideEdit(task, action.edit, terms);
  }
}

function decideEdit(task: Task, wanted: TaskEdit, terms: ActTerms): Outcome<Change, ActRefusal> {
  const { payload } = wanted;
  const isKept = payload !== undefined && isShort(payload.text);
  const outcome = edit(task, { ...wanted, payload: payload && { ...payload, isKept } }, terms);
  if (!outcome.ok) return outcome;
  const change = changeOf(task, outcome.value, "edited");
  return { ok: true, value: { ...change, payload: isKept ? undefined : payload?.text } };
}

/** What it may add to what its tenant has. */
export function takenBy(action: TaskAction): {
  readonly pending: number;
  readonly storedBytes: number;
} {
  const storedBytes = action.kind === "edit" ? (action.edit.payload?.bytes ?? 0) : 0;
  return { pending: action.kind === "replay" || action.kind === "replayAs" ? 1 : 0, storedBytes };
}

export function exceededBy(
  quotas: TenantQuotas,
  { tenantId }: TaskOf,
  action: TaskAction,
): Exceeded | undefined {
  const { pending, storedBytes } = takenBy(action);
  if (pending > 0) return quotas.exceededByTask(tenantId, 0);
  return storedBytes > 0 ? quotas.exceededByBytes(tenantId, storedBytes) : undefined;
}
