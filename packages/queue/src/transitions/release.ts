import { withAttempt } from "../attempts.ts";
import { accept, type Outcome } from "../outcome.ts";
import { checkOwner, type Owner } from "../owner.ts";
import type { Retention } from "../retention.ts";
import type { Task } from "../task.ts";
import { detached } from "./attach.ts";
import { endCancelled } from "./cancel.ts";

/**
 * A claimed task could not be handed to its worker, because the worker was gone before it was sent.
 * Nobody has seen it: it is ready again at once and nothing is counted. The lease token stays used.
 */
export function release(
  task: Task,
  by: Owner,
  at: { readonly nowMs: number; readonly seq: number; readonly retention: Retention },
): Outcome<Task, "not_owner" | "not_in_progress"> {
  const owned = checkOwner(task, by);
  if (!owned.ok) return owned;
  if (task.cancelMs !== 0) return accept(endCancelled(task, at));
  const end = { endedMs: at.nowMs, outcome: "unsent", error: "", delayMs: 0 } as const;
  const trail = withAttempt(owned.value, end);
  return accept({
    ...detached(task),
    updatedMs: at.nowMs,
    place: { in: "ready", seq: at.seq },
    trail,
  });
}
