export { type Attempt, attemptsOf } from "./attempts.ts";
export {
  type BackoffPolicy,
  backoffPolicies,
  backoffSeconds,
  type RetryPolicy,
} from "./backoff.ts";
export { type Cause, type Change, changeOf } from "./change.ts";
export {
  emptyResult,
  expiresMsOf,
  isExpired,
  type Result,
  type Retention,
  resultOf,
} from "./ended.ts";
export { accept, type Outcome, refuse } from "./outcome.ts";
export { checkOwner, type LeasedTask, type Owner } from "./owner.ts";
export {
  type Artifact,
  clampPriority,
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
export { attach, attachedTo, withAttached } from "./transitions/attach.ts";
export { claim, promote } from "./transitions/claim.ts";
export { complete, isRepeat, type Submission } from "./transitions/complete.ts";
export { type Edit, edit } from "./transitions/edit.ts";
export {
  cancel,
  cancelled,
  hasLapsed,
  lapse,
  lapsed,
  startByMsOf,
} from "./transitions/end-unfinished.ts";
export {
  enqueue,
  type IdempotencyEntry,
  matchIdempotency,
  type NewTask,
} from "./transitions/enqueue.ts";
export { extendLease, type Report, reportLimits } from "./transitions/extend-lease.ts";
export {
  abandon,
  type Comeback,
  expireLease,
  type NackRequest,
  nack,
  type Returned,
  release,
  retryOrBury,
  timedOut,
} from "./transitions/give-back.ts";
export { replay, replayAs, type TaskChanges } from "./transitions/replay.ts";
