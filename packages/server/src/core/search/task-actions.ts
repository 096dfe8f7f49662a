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
  /** Gives a failure all its attempts again. */
  | { readonly kind: "replay"; readonly job?: string | undefined }
  /** Makes a new task of a task that has ended, with some changes. */
  | { readonly kind: "replayAs"; readonly changes: ReplayChanges }
  /** Ends a task that waits; a worker that has the task gets `graceMs` to stop. */
  | { readonly kind: "cancel"; readonly graceMs: number }
  /** Changes a task that waits. */
  | { readonly kind: "edit"; readonly edit: TaskEdit }
  /** Removes a task that has ended, before its retention ends. */
  | { readonly kind: "delete" };

/** Fields that are left out stay as they are. */
export interface TaskEdit extends Omit<Edit, "payload"> {
  /** JSON text, and how many bytes it has. */
  readonly payload?: { readonly text: string; readonly bytes: number } | undefined;
}

/** Fields that are left out are as in the old task. */
export interface ReplayChanges {
  readonly command?: string | undefined;
  readonly priority?: number | undefined;
  readonly maxAttempts?: number | undefined;
  /** When the new task may be claimed; default: at once. */
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
  | "not_failed"
  | "not_ended"
  | "has_ended"
  | "not_waiting"
  | "already_done"
  | "batch_unfinished";

export type Acted =
  /** The task as it is now, or as it was before it was deleted. */
  | { readonly ok: true; readonly task: Task }
  | { readonly ok: false; readonly code: ActRefusal }
  | { readonly ok: false; readonly code: "quota_exceeded"; readonly exceeded: Exceeded }
  /** Another task has the unique key. */
  | {
      readonly ok: false;
      readonly code: "unique_key_held";
      readonly key: string;
      readonly taskId: TaskId;
    }
  | (NotAllowedPriority & { readonly ok: false });

export interface ActInput {
  readonly nowMs: number;
  readonly seq: number;
  readonly retention: Retention;
  /** The bytes of the result of the task. */
  readonly resultBytes: number;
}

/** The change of an action; `before` and `after` are the same task when the action changes nothing. */
export function decide(
  task: Task,
  action: Exclude<TaskAction, { readonly kind: "delete" | "replayAs" }>,
  input: ActInput,
): Outcome<Change, ActRefusal> {
  switch (action.kind) {
    case "replay": {
      const outcome = replay(task, { ...input, job: action.job });
      return outcome.ok ? { ok: true, value: changeOf(task, outcome.value, "replayed") } : outcome;
    }
    case "cancel": {
      const outcome = cancel(task, { ...input, graceMs: action.graceMs });
      if (!outcome.ok) return outcome;
      const hasEnded = outcome.value.place.in === "done";
      const change = changeOf(task, outcome.value, "cancelled");
      return { ok: true, value: { ...change, keep: !hasEnded } };
    }
    case "edit":
      return decideEdit(task, action.edit, input);
  }
}

function decideEdit(task: Task, wanted: TaskEdit, input: ActInput): Outcome<Change, ActRefusal> {
  const { payload } = wanted;
  const isKept = payload !== undefined && isShort(payload.text);
  const outcome = edit(task, { ...wanted, payload: payload && { ...payload, isKept } }, input);
  if (!outcome.ok) return outcome;
  const change = changeOf(task, outcome.value, "edited");
  return { ok: true, value: { ...change, payload: isKept ? undefined : payload?.text } };
}

/** What the action may add to the usage of the tenant. */
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
