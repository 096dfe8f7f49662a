export { type Attempt, attemptsOf } from "./attempts.ts";
export {
  type BackoffPolicy,
  backoffPolicies,
  backoffSeconds,
  type RetryPolicy,
} from "./backoff.ts";
export { type Cause, type Change, changeOf } from "./change.ts";
export { type IdempotencyEntry, matchIdempotency } from "./idempotency.ts";
export { accept, type Outcome, refuse } from "./outcome.ts";
export { checkOwner, type LeasedTask, type Owner } from "./owner.ts";
export { clampPriority } from "./priority.ts";
export { type Report, reportLimits } from "./report.ts";
export { emptyResult, type Result, resultOf } from "./result.ts";
export { expiresMsOf, isExpired, type Retention } from "./retention.ts";
export {
  type Artifact,
  comebacks,
  type LogLine,
  noExtras,
  noRepairs,
  type PastAttempt,
  type Place,
  type Progress,
  queueOf,
  type ResultBody,
  type Status,
  statusOf,
  type Task,
  type TaskExtras,
  type TaskId,
  type TaskRepairs,
  type TenantId,
  type Trail,
  type WorkerId,
} from "./task.ts";
export { abandon } from "./transitions/abandon.ts";
export { attach, attachedTo, withAttached } from "./transitions/attach.ts";
export { cancel, cancelled } from "./transitions/cancel.ts";
export { claim } from "./transitions/claim.ts";
export { complete, isRepeat, type Submission } from "./transitions/complete.ts";
export { type Edit, edit } from "./transitions/edit.ts";
export { enqueue, type NewTask } from "./transitions/enqueue.ts";
export { expireLease, timedOut } from "./transitions/expire-lease.ts";
export { extendLease } from "./transitions/extend-lease.ts";
export { hasLapsed, lapse, lapsed, startByMsOf } from "./transitions/lapse.ts";
export { type NackRequest, nack } from "./transitions/nack.ts";
export { promote } from "./transitions/promote.ts";
export { release } from "./transitions/release.ts";
export { replay } from "./transitions/replay.ts";
export { replayAs, type TaskChanges } from "./transitions/replay-as.ts";
export { type Comeback, type Returned, retryOrBury } from "./transitions/retry-or-bury.ts";
