/**
 * Decides about an attempt that came back: a retry, or the end. This is the only place that
 * counts an attempt and the only one that chooses between the two, so every way back obeys the same
 * limit and a task is delivered exactly `maxAttempts` times when all its attempts count.
 */

import { withAttempt } from "../attempts.ts";
import type { RetryPolicy } from "../backoff.ts";
import { isLeased, type LeasedTask } from "../owner.ts";
import { emptyResult } from "../result.ts";
import type { Retention } from "../retention.ts";
import type { PastAttempt, Place, Task, Trail } from "../task.ts";
import { detached } from "./attach.ts";
import { endCancelled } from "./cancel.ts";
import { begun } from "./lapse.ts";

/** The error of a task that is buried when nobody gave a reason. */
export const attemptsUsedUp = "MAX_ATTEMPTS";

/** What every way back needs from its surroundings. */
export interface ComebackAt {
  readonly nowMs: number;
  /** The position of the task if it becomes ready: the back of its queue. */
  readonly seq: number;
  readonly retention: Retention;
}

/** The same for the ways back that wait by the policy. */
export interface BackoffAt extends ComebackAt {
  /** Uniform in [0, 1). */
  readonly draw: number;
  readonly policy: RetryPolicy;
}

export interface Comeback extends ComebackAt {
  readonly delaySeconds: number;
  /** Becomes the task's error when it is buried. */
  readonly error: string;
  /** Becomes the error of the task when it is retried; empty keeps its current error. */
  readonly lastError: string;
  readonly outcome: PastAttempt["outcome"];
}

export interface Returned {
  readonly task: Task;
  /** It has ended: its attempts are used up, or it was cancelled. */
  readonly buried: boolean;
  /** The delay that was applied; 0 when the task is ready at once or buried. */
  readonly delaySeconds: number;
}

/** The caller has made sure that the task is leased; anything else is a bug, not a refusal. */
export function retryOrBury(task: Task, comeback: Comeback): Returned {
  if (!isLeased(task)) throw new Error(`a ${task.place.in} task cannot come back`);
  if (task.cancelMs !== 0) {
    return { task: endCancelled(task, comeback), buried: true, delaySeconds: 0 };
  }
  const attempts = attemptsAfter(task);
  const isLast = attempts >= task.maxAttempts;
  const trail = trailOf(task, comeback, isLast ? 0 : comeback.delaySeconds);
  const counted = {
    ...begun(detached(task)),
    attempts,
    handBacks: 0,
    updatedMs: comeback.nowMs,
    trail,
  };
  if (isLast) {
    const end = { error: comeback.error, place: grave(comeback), result: emptyResult };
    const buried = { ...counted, ...end };
    return { task: buried, buried: true, delaySeconds: 0 };
  }
  const error = comeback.lastError === "" ? task.error : comeback.lastError;
  const retried = { ...counted, error, place: waitingPlace(comeback) };
  return { task: retried, buried: false, delaySeconds: comeback.delaySeconds };
}

/** How many attempts the task will have once its present attempt has been counted. */
export function attemptsAfter(task: Task): number {
  return task.attempts + 1;
}

function trailOf(task: LeasedTask, comeback: Comeback, delaySeconds: number): Trail {
  const { nowMs: endedMs, outcome, lastError: error } = comeback;
  return withAttempt(task, { endedMs, outcome, error, delayMs: delaySeconds * 1000 });
}

function grave(comeback: Comeback): Place {
  const { nowMs, retention } = comeback;
  const expiresMs = retention.deadMs === 0 ? undefined : nowMs + retention.deadMs;
  return { in: "dead", atMs: nowMs, expiresMs };
}

function waitingPlace(comeback: Comeback): Place {
  const { nowMs, seq, delaySeconds } = comeback;
  if (delaySeconds > 0) return { in: "delayed", dueMs: nowMs + delaySeconds * 1000 };
  return { in: "ready", seq };
}
