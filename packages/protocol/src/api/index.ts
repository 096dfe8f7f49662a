import { apiKeys } from "./api-keys.ts";
import { audit } from "./audit.ts";
import { Backup, backups } from "./backups.ts";
import { FailureGroup, failures, Triage } from "./failures.ts";
import {
  PausedQueue,
  QueueDetails,
  QueueOverview,
  queues,
  Series,
  Setting,
  Trends,
} from "./queues.ts";
import { subscriptions } from "./subscriptions.ts";
import { Topic, TopicPolicy, topics } from "./topics.ts";
import { workers } from "./workers.ts";

export { ApiKey, CreateApiKeyBody, CreatedApiKey } from "./api-keys.ts";
export { AuditRecord } from "./audit.ts";
export {
  type Endpoint,
  endpoints,
  invalidArgument,
  type Method,
  type OutOfBounds,
  type Reply,
} from "./endpoint.ts";
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
} from "./shape.ts";
export { RenewBody, SubscribeBody, Subscription } from "./subscriptions.ts";
export { taskFilter, taskPlaces } from "./task-filter.ts";
export { Topic, TopicPolicy } from "./topics.ts";
export { Worker } from "./workers.ts";

/** The endpoints of every resource. */
export const api = { failures, apiKeys, audit, backups, queues, subscriptions, topics, workers };

/** The shapes whose types the client library has, under their names there. */
export const client = {
  TopicPolicy,
  Topic,
  CreatedBackup: Backup,
  QueueDetails,
  QueueOverview,
  QueuePause: PausedQueue,
  QueueSeries: Series,
  QueueTrends: Trends,
  ServerSetting: Setting,
  FailureGroup,
  TriageOptions: Triage,
};
