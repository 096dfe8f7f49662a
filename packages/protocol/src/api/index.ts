import { ApiKey, apiKeys, CreateApiKeyBody, CreatedApiKey } from "./api-keys.ts";
import { Artifact, artifacts } from "./artifacts.ts";
import { AuditRecord, audit } from "./audit.ts";
import { Backup, backups } from "./backups.ts";
import { Batch, BatchMember, batches } from "./batches.ts";
import { AddedNode, cluster, HandedOff, RemovedNode, RepairBody, RepairedLog } from "./cluster.ts";
import { BulkOptions, BulkOutcome, deadLetters } from "./dead-letters.ts";
import { events, ScheduleEvent, TaskEvent } from "./events.ts";
import { explain, TaskExplanation, WorkerExplanation } from "./explain.ts";
import { FailureGroup, failures, Triage } from "./failures.ts";
import { Job, jobs } from "./jobs.ts";
import { Lane, LaneLimits, LanesPolicy, lanes, Rate } from "./lanes.ts";
import {
  PausedQueue,
  QueueDetails,
  QueueOverview,
  queues,
  Series,
  Setting,
  Trends,
} from "./queues.ts";
import {
  PlannedRun,
  Schedule,
  ScheduleBody,
  ScheduleExplanation,
  ScheduleRun,
  schedules,
} from "./schedules.ts";
import { subscriptions } from "./subscriptions.ts";
import {
  FoundTasks,
  InspectedTask,
  ListedTask,
  Result,
  TaskAttempt,
  TaskReplay,
  TaskWithHistory,
  taskAdmin,
  tasks,
} from "./tasks.ts";
import { Topic, TopicPolicy, topics } from "./topics.ts";
import {
  CreatedWebhookSecret,
  Deliveries,
  DeliveryTry,
  FailedDelivery,
  FailingEndpoint,
  Redelivered,
  WebhookSecret,
  webhooks,
} from "./webhooks.ts";
import { work } from "./work.ts";
import { Worker, workers } from "./workers.ts";

export {
  type Endpoint,
  endpoints,
  errorCode,
  invalidArgument,
  type Method,
  NotLeader,
  type OutOfBounds,
  Refused,
  type Reply,
} from "../contract/endpoint.ts";
export {
  count,
  decimal,
  either,
  type Fields,
  type Flat,
  flag,
  instant,
  type KeptFields,
  type KeptOf,
  keptName,
  like,
  list,
  mapOf,
  type ObjectShape,
  object,
  only,
  raw,
  type Shape,
  text,
  type WireFields,
  whole,
} from "../contract/shape.ts";
export { ApiKey, CreateApiKeyBody, CreatedApiKey } from "./api-keys.ts";
export { AuditRecord } from "./audit.ts";
export { Batch, BatchBody, BatchMember } from "./batches.ts";
export { BulkOutcome } from "./dead-letters.ts";
export { EventSummary, ScheduleEvent, TaskEvent } from "./events.ts";
export { TaskExplanation, WorkerExplanation } from "./explain.ts";
export { Health } from "./health.ts";
export { Job } from "./jobs.ts";
export { Lane, LaneLimits, LanesPolicy, Rate } from "./lanes.ts";
export {
  PlannedRun,
  Schedule,
  ScheduleBody,
  ScheduleExplanation,
  ScheduleRun,
} from "./schedules.ts";
export { Session } from "./sessions.ts";
export { RenewBody, SubscribeBody, Subscription } from "./subscriptions.ts";
export { filterPlaces, taskFilter, taskPlaces } from "./task-filter.ts";
export { Topic, TopicPolicy } from "./topics.ts";
export {
  Deliveries,
  DeliveryTry,
  FailedDelivery,
  FailingEndpoint,
  WebhookSecret,
} from "./webhooks.ts";
export {
  AbandonBody,
  ClaimBatchBody,
  ClaimBody,
  CreateBatchBody,
  CreateBody,
  HeartbeatBody,
  NackBody,
  type NewResult,
  type NewTask,
  ResultBatchBody,
  ResultBody,
} from "./work.ts";
export { Worker } from "./workers.ts";

/** The endpoints of every resource. */
export const api = {
  work,
  tasks,
  taskAdmin,
  deadLetters,
  failures,
  jobs,
  lanes,
  apiKeys,
  artifacts,
  audit,
  backups,
  batches,
  cluster,
  events,
  explain,
  queues,
  schedules,
  subscriptions,
  topics,
  webhooks,
  workers,
};

/** The shapes whose types the client library has, under their names there. */
export const client = {
  Rate,
  LanesPolicy,
  LaneLimits,
  Lane,
  TopicPolicy,
  Topic,
  CreatedBackup: Backup,
  BatchProgress: Batch,
  BatchMember,
  QueueDetails,
  QueueOverview,
  QueuePause: PausedQueue,
  QueueSeries: Series,
  QueueTrends: Trends,
  ServerSetting: Setting,
  FailureGroup,
  TriageOptions: Triage,
  DeliveryTry,
  Deliveries,
  FailedDelivery,
  FailingEndpoint,
  RedeliverOutcome: Redelivered,
  WebhookSecret,
  CreatedWebhookSecret,
  RunStatus: TaskWithHistory,
  TaskAttempt,
  AdminTask: ListedTask,
  AdminResult: Result,
  InspectedTask,
  TaskPage: FoundTasks,
  ReplayChanges: TaskReplay,
  Artifact,
  HandedOff,
  AddedNode,
  RemovedNode,
  RepairOptions: RepairBody,
  RepairedLog,
  RunEvent: TaskEvent,
  ScheduleEvent,
  TaskExplanation,
  WorkerExplanation,
  ConnectedWorker: Worker,
  ApiKey,
  ApiKeyOptions: CreateApiKeyBody,
  CreatedApiKey,
  AuditRecord,
  BulkJob: Job,
  BulkOptions,
  BulkOutcome,
  ScheduleBody,
  Schedule,
  ScheduleRun,
  PlannedRun,
  ScheduleExplanation,
};
