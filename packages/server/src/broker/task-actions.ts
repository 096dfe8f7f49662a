/** What administrators do to single tasks. An action travels to shards as JSON, and so does its answer. */
import {
  type Change,
  cancel,
  changeOf,
  type Outcome,
  type Retention,
  replay,
  type Task,
  type TaskId,
  type TenantId,
} from "@codeq/queue";
import type { Exceeded } from "../config/quotas.ts";

export type TaskAction =
  /** Gives a dead letter all its deliveries again. */
  | { readonly kind: "replay" }
  /** Ends a task that waits; one that a worker has gets so long to stop. */
  | { readonly kind: "cancel"; readonly graceMs: number }
  /** Removes a task that has ended, before its retention does. */
  | { readonly kind: "delete" };

export interface TaskOf {
  readonly tenantId: TenantId;
  readonly id: TaskId;
}

export type ActRefusal = "task_unknown" | "not_dead" | "not_ended" | "has_ended";

export type Acted =
  /** The task as it is now, or as it was when it is gone. */
  | { readonly ok: true; readonly task: Task }
  | { readonly ok: false; readonly code: ActRefusal }
  | { readonly ok: false; readonly code: "quota_exceeded"; readonly exceeded: Exceeded };

export interface ActTerms {
  readonly nowMs: number;
  readonly seq: number;
  readonly retention: Retention;
}

/** The change that an action makes of a task. */
export function decide(
  task: Task,
  action: Exclude<TaskAction, { readonly kind: "delete" }>,
  terms: ActTerms,
): Outcome<Change, ActRefusal> {
  switch (action.kind) {
    case "replay": {
      const outcome = replay(task, terms);
      return outcome.ok ? { ok: true, value: changeOf(task, outcome.value, "replayed") } : outcome;
    }
    case "cancel": {
      const outcome = cancel(task, { ...terms, graceMs: action.graceMs });
      if (!outcome.ok) return outcome;
      const hasEnded = outcome.value.place.in === "done";
      const change = changeOf(task, outcome.value, "cancelled");
      return { ok: true, value: { ...change, keep: !hasEnded } };
    }
  }
}

/** Whether it makes one more task that waits, so that quotas count it. */
export function addsPending({ kind }: TaskAction): boolean {
  return kind === "replay";
}
