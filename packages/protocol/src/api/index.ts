import { ApiKey, apiKeys, CreateApiKeyBody, CreatedApiKey } from "./access/api-keys.ts";
import { AuditRecord, audit } from "./access/audit.ts";
import { BulkOptions, BulkOutcome, deadLetters } from "./failures/dead-letters.ts";
import { FailureGroup, failures, Triage } from "./failures/failures.ts";
import { Job, jobs } from "./failures/jobs.ts";
import { events, ScheduleEvent, TaskEvent } from "./notifications/events.ts";
import { subscriptions } from "./notifications/subscriptions.ts";
import {
  CreatedWebhookSecret,
  Deliveries,
  DeliveryTry,
  FailedDelivery,
  FailingEndpoint,
  Redelivered,
  WebhookBody,
  WebhookSecret,
  webhooks,
} from "./notifications/webhooks.ts";
import { Lane, LaneLimits, LanesPolicy, lanes, Rate } from "./queues/lanes.ts";
import {
  PausedQueue,
  QueueDetails,
  QueueOverview,
  queues,
  Series,
  Setting,
  Trends,
} from "./queues/queues.ts";
import { Topic, TopicPolicy, topics } from "./queues/topics.ts";
import { Worker, workers } from "./queues/workers.ts";
import { Backup, backups } from "./server/backups.ts";
import {
  AddedNode,
  cluster,
  HandedOff,
  RemovedNode,
  RepairBody,
  RepairedLog,
} from "./server/cluster.ts";
import { Artifact, artifacts } from "./tasks/artifacts.ts";
import { Batch, BatchMember, batches } from "./tasks/batches.ts";
import { explain, TaskExplanation, WorkerExplanation } from "./tasks/explain.ts";
import {
  PlannedRun,
  Schedule,
  ScheduleBody,
  ScheduleExplanation,
  ScheduleRun,
  schedules,
} from "./tasks/schedules.ts";
import {
  FoundTasks,
  InspectedTask,
  ListedTask,
  Result,
  ResultEvent,
  TaskAttempt,
  TaskHistory,
  TaskReplay,
  TaskState,
  TaskWithHistory,
  taskAdmin,
  tasks,
} from "./tasks/tasks.ts";
import { work } from "./tasks/work.ts";

export * from "../contract/endpoint.ts";
export * from "../contract/shape.ts";
export * from "./access/api-keys.ts";
export * from "./access/audit.ts";
export * from "./access/sessions.ts";
export * from "./failures/dead-letters.ts";
export * from "./failures/jobs.ts";
export * from "./notifications/events.ts";
export * from "./notifications/subscriptions.ts";
export * from "./notifications/webhooks.ts";
export * from "./queues/lanes.ts";
export * from "./queues/topics.ts";
export * from "./queues/workers.ts";
export * from "./server/health.ts";
export * from "./tasks/batches.ts";
export * from "./tasks/explain.ts";
export * from "./tasks/schedules.ts";
export * from "./tasks/task-filter.ts";
export * from "./tasks/work.ts";

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
  WebhookBody,
  DeliveryTry,
  Deliveries,
  FailedDelivery,
  FailingEndpoint,
  RedeliverOutcome: Redelivered,
  WebhookSecret,
  CreatedWebhookSecret,
  TaskState,
  TaskAttempt,
  TaskHistory,
  RunStatus: TaskWithHistory,
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
  RunResult: ResultEvent,
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
