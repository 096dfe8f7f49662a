import { withAttempt } from "../attempts.ts";
import { accept, type Outcome } from "../outcome.ts";
import { checkOwner, type LeasedTask, type Owner } from "../owner.ts";
import type { Task } from "../task.ts";
import { detached } from "./attach.ts";
import { begun } from "./lapse.ts";
import { attemptsUsedUp, type ComebackAt, type Returned, retryOrBury } from "./retry-or-bury.ts";

/**
 * Interrupted hand-backs in a row that are free. There is a limit because a task that makes its
 * workers stop would otherwise be delivered forever.
 */
export const handBacksMax = 3;

/**
 * A worker lets go of a task without having tried it to the end. It is ready again at once, behind
 * the others of its priority. It counts as an attempt unless the worker was interrupted, for
 * example by a deployment, which says nothing about the task.
 */
export function abandon(
  task: Task,
  by: Owner,
  request: { readonly interrupted: boolean },
  at: ComebackAt,
): Outcome<Returned, "not_owner" | "not_in_progress"> {
  const owned = checkOwner(task, by);
  if (!owned.ok) return owned;
  const isCancelled = task.cancelMs !== 0;
  if (!isCancelled && request.interrupted && task.handBacks < handBacksMax)
    return accept(handBack(owned.value, at));
  return accept(
    retryOrBury(owned.value, {
      nowMs: at.nowMs,
      seq: at.seq,
      retention: at.retention,
      delaySeconds: 0,
      error: attemptsUsedUp,
      lastError: "",
      outcome: "abandoned",
    }),
  );
}

function handBack(task: LeasedTask, at: ComebackAt): Returned {
  const end = { endedMs: at.nowMs, outcome: "interrupted", error: "", delayMs: 0 } as const;
  const returned: Task = {
    ...begun(detached(task)),
    handBacks: task.handBacks + 1,
    updatedMs: at.nowMs,
    place: { in: "ready", seq: at.seq },
    trail: withAttempt(task, end),
  };
  return { task: returned, buried: false, delaySeconds: 0 };
}
