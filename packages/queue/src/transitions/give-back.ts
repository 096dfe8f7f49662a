/**
 * The ways in which a worker gives a task back without a result: nack, abandon, release and expiry of the lease.
 * Only `retryOrBury` counts an attempt and chooses between a retry and the end, so every way back obeys the same
 * limit, and a task is tried exactly `maxAttempts` times when all its attempts count.
 */

import { withAttempt } from "../attempts.ts";
import { backoffSeconds, ceilingSeconds, type RetryPolicy } from "../backoff.ts";
import type { Retention } from "../ended.ts";
import { emptyResult } from "../ended.ts";
import { accept, type Outcome, refuse } from "../outcome.ts";
import { checkOwner, isLeased, type LeasedTask, type Owner } from "../owner.ts";
import { laneOf, type PastAttempt, type Place, type Task, type Trail } from "../task.ts";
import { detached } from "./attach.ts";
import { endCancelled } from "./end-unfinished.ts";

/** The error of a dead letter when no reason was given. */
const attemptsUsedUp = "MAX_ATTEMPTS";

/** The parameters of every way back. */
interface ComebackAt {
  readonly nowMs: number;
  /** The position of the task if it becomes ready: the back of its queue. */
  readonly seq: number;
  readonly retention: Retention;
}

/** The parameters of ways back that wait by the retry policy. */
interface BackoffAt extends ComebackAt {
  /** Uniform in [0, 1). */
  readonly draw: number;
  readonly policy: RetryPolicy;
}

export interface Comeback extends ComebackAt {
  readonly delaySeconds: number;
  /** Becomes the error of the task when it becomes a dead letter. */
  readonly error: string;
  /** Becomes the error of the task when it is retried; empty keeps its current error. */
  readonly lastError: string;
  readonly stack?: string | undefined;
  readonly outcome: PastAttempt["outcome"];
}

export interface Returned {
  readonly task: Task;
  /** The task has ended: its attempts are used up, or it was cancelled. */
  readonly buried: boolean;
  /** The delay that was applied; 0 when the task is ready at once or buried. */
  readonly delaySeconds: number;
}

export interface NackRequest {
  /** Precise to the millisecond; zero or less leaves the delay to the policy. */
  readonly delaySeconds: number;
  readonly reason: string;
  /** Where in the worker's code it failed, and its causes. */
  readonly stack?: string | undefined;
  /** Holds the lane of the task for so long, without counting an attempt. */
  readonly holdMs?: number | undefined;
  /** How many units of the rate the attempt took. */
  readonly used?: number | undefined;
}

/** Times in a row that a hold is no attempt, so that no task is delivered forever. */
const holdsMax = 100;

/** A worker could not do the task and gives it back for another try. */
export function nack(
  task: Task,
  by: Owner,
  request: NackRequest,
  at: BackoffAt,
): Outcome<Returned, "not_owner" | "not_in_progress"> {
  const owned = checkOwner(task, by);
  if (!owned.ok) return owned;
  const { holdMs = 0 } = request;
  if (isHold(task, request)) return accept(held(owned.value, { ...request, holdMs }, at));
  return accept(
    retryOrBury(owned.value, {
      nowMs: at.nowMs,
      seq: at.seq,
      retention: at.retention,
      delaySeconds: delayOf(task, request, at),
      error: request.reason === "" ? attemptsUsedUp : request.reason,
      lastError: request.reason,
      stack: request.stack,
      outcome: "nacked",
    }),
  );
}

/** Whether a nack holds the lane instead of counting an attempt. */
export function isHold({ lane, cancelMs }: Task, { holdMs = 0 }: NackRequest): boolean {
  return holdMs > 0 && cancelMs === 0 && (lane?.holds ?? 0) < holdsMax;
}

/** The task keeps its turn in its lane, which is held; a task without a lane waits by itself. */
function held(
  task: LeasedTask,
  { reason, holdMs }: NackRequest & { readonly holdMs: number },
  at: ComebackAt,
): Returned {
  const lane = task.lane ?? { name: "", cost: 1, holds: 0, seq: 0 };
  const place: Place =
    lane.name === "" ? { in: "delayed", dueMs: at.nowMs + holdMs } : { in: "ready", seq: lane.seq };
  const returned: Task = {
    ...begun(detached(task)),
    updatedMs: at.nowMs,
    error: reason === "" ? task.error : reason,
    place,
    lane: { ...lane, holds: lane.holds + 1 },
  };
  return { task: returned, buried: false, delaySeconds: holdMs / 1000 };
}

function delayOf(task: Task, request: NackRequest, at: BackoffAt): number {
  const holdSeconds = (request.holdMs ?? 0) / 1000;
  if (holdSeconds > 0) return Math.max(holdSeconds, request.delaySeconds);
  const wanted = Math.round(request.delaySeconds * 1000) / 1000;
  if (request.delaySeconds > 0) return Math.min(wanted, ceilingSeconds(at.policy));
  return backoffSeconds(at.policy, attemptsAfter(task), at.draw);
}

/**
 * Interrupted hand-backs in a row that are free. There is a limit because a task that makes its
 * workers stop would otherwise be delivered forever.
 */
export const handBacksMax = 3;

/**
 * A worker gives up a task before the end of its attempt. The task is ready again at once, behind the others of
 * its priority. It counts as an attempt unless the worker was interrupted, for example by a deployment, which says
 * nothing about the task.
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

/**
 * A claimed task could not be sent to its worker, because the worker was gone. No worker has seen the task: it is
 * ready again at once and no attempt is counted. In a lane it keeps its turn. The lease token stays used.
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
  const seq = laneOf(task) === "" ? at.seq : (task.lane?.seq ?? at.seq);
  return accept({
    ...detached(task),
    updatedMs: at.nowMs,
    place: { in: "ready", seq },
    trail,
  });
}

/** The error of a task whose attempt took longer than its timeout. */
export const timedOut = "TIMEOUT";

interface ExpireAt extends BackoffAt {
  /** How long the attempt was under way, by a clock that never steps. */
  readonly ranMs: number;
}

/**
 * Takes a task back from a worker that went silent, or that took longer than the timeout of the task.
 * The caller decides whether the lease has run out, because it measures leases with a clock that never steps;
 * `untilMs` is wall time, and only shown to users.
 */
export function expireLease(task: Task, at: ExpireAt): Outcome<Returned, "not_in_progress"> {
  if (!isLeased(task)) return refuse("not_in_progress");
  const timeoutMs = task.extras?.timeoutMs ?? 0;
  const isTimeout = timeoutMs !== 0 && at.ranMs >= timeoutMs;
  return accept(
    retryOrBury(task, {
      nowMs: at.nowMs,
      seq: at.seq,
      retention: at.retention,
      delaySeconds: backoffSeconds(at.policy, attemptsAfter(task), at.draw),
      error: isTimeout ? timedOut : "LEASE_EXPIRED",
      lastError: isTimeout ? timedOut : "",
      outcome: isTimeout ? "timed_out" : "expired",
    }),
  );
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
    lane: task.lane && { ...task.lane, holds: 0 },
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
function attemptsAfter(task: Task): number {
  return task.attempts + 1;
}

function trailOf(task: LeasedTask, comeback: Comeback, delaySeconds: number): Trail {
  const { nowMs: endedMs, outcome, lastError: error, stack = "" } = comeback;
  const delayMs = Math.round(delaySeconds * 1000);
  return withAttempt(task, { endedMs, outcome, error, stack, delayMs });
}

function grave(comeback: Comeback): Place {
  const { nowMs, retention } = comeback;
  const expiresMs = retention.deadMs === 0 ? undefined : nowMs + retention.deadMs;
  return { in: "dead", atMs: nowMs, expiresMs };
}

function waitingPlace(comeback: Comeback): Place {
  const { nowMs, seq, delaySeconds } = comeback;
  if (delaySeconds > 0) return { in: "delayed", dueMs: nowMs + Math.round(delaySeconds * 1000) };
  return { in: "ready", seq };
}

/** The task after its first attempt: the time by which it had to be begun applies no more. */
function begun(task: Task): Task {
  if (task.extras === undefined || task.extras.startByMs === 0) return task;
  return { ...task, extras: { ...task.extras, startByMs: 0 } };
}
