/** The client library of codeQ: everything that producers and workers use. */

export type {
  Admin,
  AuditOptions,
  CanaryOptions,
  JobOptions,
  SeriesOptions,
} from "./admin/admin.ts";
export type { AdminKeys } from "./admin/admin-keys.ts";
export type {
  DeadLetters,
  TaskChanges,
  TaskFilter,
  TaskPageOptions,
  TaskPlace,
} from "./admin/admin-task.ts";
export type { AdminWebhooks, RedeliverOptions } from "./admin/admin-webhooks.ts";
export type * from "./api-types.ts";
export type {
  Batch,
  BatchEnd,
  BatchHandle,
  BatchItems,
  BatchOptions,
  HandledBatch,
} from "./batches/batch.ts";
export {
  type Client,
  type ClientOptions,
  codeq,
  type EnqueueItem,
  task,
  type UntilIdleOptions,
  useClient,
} from "./client.ts";
export { CodeqError, type ErrorCode, TaskFailedError } from "./codeq-error.ts";
export type { Duration } from "./duration.ts";
export type { TlsOptions } from "./grpc/http2-connection.ts";
export type { ArtifactContent, RunArtifact } from "./payload/artifact.ts";
export { type AesGcmOptions, aesGcm, type Codec } from "./payload/codec.ts";
export { JsonText } from "./payload/json-text.ts";
export {
  type SchemaIssue,
  type StandardSchema,
  ValidationError,
} from "./payload/standard-schema.ts";
export {
  type EnqueueArguments,
  EnqueueManyError,
  type EnqueueOptions,
  type EnqueueOutcome,
} from "./producer/enqueue-options.ts";
export type { CancelOptions, ResultOptions, Run } from "./producer/run.ts";
export type { TaskUpdate } from "./producer/run-events.ts";
export type {
  BackfillOptions,
  PutScheduleOptions,
  ScheduleSettings,
  Schedules,
  ScheduleTimes,
  SyncedSchedule,
  SyncOutcome,
} from "./schedules/schedules.ts";
export { type NodeHandler, nodeHandler } from "./serve/node-handler.ts";
export { type FetchHandler, type ServeOptions, serve } from "./serve/serve.ts";
export type {
  DeliveryMode,
  SubscribeOptions,
  Subscription,
  Subscriptions,
  TenantSubscriptions,
} from "./subscriptions/subscriptions.ts";
export {
  type ListenOptions,
  type Notification,
  verifyNotification,
  type WakeUp,
} from "./subscriptions/wake-ups.ts";
export type {
  DefineTask,
  Handler,
  HandlerFunction,
  ManyFunction,
  ManyOptions,
  ManyOutcomes,
  RetryOptions,
  RunArguments,
  RunOptions,
  Task,
  TaskOfMany,
  TaskSettings,
  TaskType,
  UniqueOptions,
} from "./task.ts";
export type { TraceContext, TracedRun, Tracing } from "./trace-context.ts";
export {
  type VerifyOptions,
  verifyWebhook,
  type WebhookMessage,
  type WebhookRequest,
} from "./verify-webhook.ts";
export { Permanent, RateLimited, RetryIn } from "./worker/outcome.ts";
export type { Middleware, TaskContext } from "./worker/task-context.ts";
export type { WorkedOff } from "./worker/work-until-idle.ts";
export type {
  CloseOptions,
  Settled,
  Worker,
  WorkerListeners,
  WorkerOptions,
  WorkerWarning,
} from "./worker/worker-options.ts";
