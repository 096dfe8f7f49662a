export { type Attempt, attemptsOf } from "./attempts.ts";
export {
  type BackoffPolicy,
  backoffPolicies,
  backoffSeconds,
  type RetryPolicy,
} from "./backoff.ts";
export {
  type BatchFailure,
  type BatchPhase,
  type BatchSpec,
  type BatchState,
  batchChores,
  batchConditions,
  batchError,
  batchPhases,
  callbackAtEnd,
  countMember,
  decideBatch,
  failedCallback,
  followCallback,
  heldAgain,
  isUnfinished,
  newBatchState,
  partOf,
  releasedCallback,
  waitsForReplay,
  withoutMember,
} from "./batch/batch.ts";
export { type Cause, type Change, changeOf } from "./change.ts";
export {
  emptyResult,
  expiresMsOf,
  isExpired,
  type Result,
  type Retention,
  resultOf,
} from "./ended.ts";
export { endTag, startTag } from "./lanes/fair-share.ts";
export { type Rate, settle, spend, spendableMs } from "./lanes/gcra.ts";
export { accept, type Outcome, refuse } from "./outcome.ts";
export { checkOwner, type LeasedTask, type Owner } from "./owner.ts";
export { instantOf, utc, type Zone } from "./schedule/calendar.ts";
export { parseCron } from "./schedule/cron.ts";
export {
  afterEnd,
  countOutcome,
  type Fired,
  fire,
  newScheduleState,
  nextNominal,
  pauseSchedule,
  resumeSchedule,
  type SchedulePause,
  type SchedulePolicy,
  type ScheduleState,
  type SkipReason,
  type Skips,
  skipHeld,
  skipReasons,
  spreadDelayMs,
} from "./schedule/schedule.ts";
export {
  compileSpec,
  durationMs,
  type Spec,
  type SpecText,
} from "./schedule/spec.ts";
export {
  type Artifact,
  type BatchEnd,
  clampPriority,
  comebacks,
  costOf,
  isFailure,
  isLive,
  type LogLine,
  laneOf,
  noExtras,
  noRepairs,
  type PastAttempt,
  type Place,
  type Progress,
  queueOf,
  type ResultBody,
  type Status,
  scheduledKinds,
  statusOf,
  type Task,
  type TaskBatch,
  type TaskExtras,
  type TaskId,
  type TaskLane,
  type TaskRepairs,
  type TaskSchedule,
  type TaskUnique,
  type TenantId,
  type Trail,
  type WorkerId,
} from "./task.ts";
export { attach, attachedTo, bytesOfResult, withAttached } from "./transitions/attach.ts";
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
export { enqueue, type NewTask } from "./transitions/enqueue.ts";
export { extendLease, type Report, reportLimits } from "./transitions/extend-lease.ts";
export {
  abandon,
  type Comeback,
  expireLease,
  isHold,
  type NackRequest,
  nack,
  type Returned,
  release,
  retryOrBury,
  timedOut,
} from "./transitions/give-back.ts";
export {
  endings,
  type GoneTask,
  goneTask,
  type IdempotencyEntry,
  keyUntilMs,
  matchIdempotency,
  withoutItsRecord,
} from "./transitions/idempotency.ts";
export { replay, replayAs, type TaskChanges } from "./transitions/replay.ts";
export {
  decideUnique,
  heldMs,
  holdsKey,
  released,
  replaceUnique,
  type UniqueDecision,
  type UniqueEntry,
  type UniqueRequest,
  uniqueActions,
  uniqueOutcomes,
  uniqueWhiles,
} from "./transitions/unique.ts";
