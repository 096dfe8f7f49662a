/** The only list of features: their operations, which tests also use, and their routes. */
import { api } from "@codeq/protocol/api";
import { contractRoutes } from "../edge/http/contract/contract-route.ts";
import type { AnyRoute } from "../edge/http/route.ts";
import {
  createApiKey,
  getApiKey,
  listApiKeys,
  revokeApiKey,
} from "../features/api-keys/operations.ts";
import { artifactRoutes } from "../features/artifacts/artifact-routes.ts";
import { downloadAnyArtifact, downloadArtifact } from "../features/artifacts/download-artifact.ts";
import { uploadArtifact } from "../features/artifacts/upload-artifact.ts";
import { listAudit } from "../features/audit/operations.ts";
import { createBackup, readBackup, sentBackup } from "../features/backups/operations.ts";
import {
  cancelAnyBatch,
  cancelBatch,
  getAnyBatch,
  getBatch,
  listBatches,
  listBatchResults,
  putBatch,
  sealAnyBatch,
  sealBatch,
} from "../features/batches/operations.ts";
import {
  addNode,
  endCluster,
  getCluster,
  getRaftStatus,
  handOff,
  removeNode,
  repairCluster,
} from "../features/cluster/operations.ts";
import { eventRoutes } from "../features/events/event-routes.ts";
import { watchEvents } from "../features/events/watch-events.ts";
import { createPublicToken, watchTask } from "../features/events/watch-task.ts";
import { explainAnyTask, explainTask } from "../features/explain/explain-task.ts";
import { explainWorker } from "../features/explain/explain-worker.ts";
import { listFailureGroups, triageFailureGroup } from "../features/failures/operations.ts";
import {
  abortJob,
  createJob,
  getJob,
  listJobs,
  pauseJob,
  resumeJob,
} from "../features/jobs/operations.ts";
import {
  deleteLane,
  listLanes,
  pauseLane,
  putLane,
  resumeLane,
} from "../features/lanes/operations.ts";
import {
  cleanUp,
  getQueue,
  getQueueSeries,
  getSeries,
  getTrends,
  listPauses,
  listQueues,
  listSettings,
  listTenants,
  pauseQueue,
  resumeQueue,
} from "../features/queues/operations.ts";
import { cleanedUpReply, queuesReply } from "../features/queues/queue-replies.ts";
import {
  backfillSchedule,
  deleteSchedule,
  explainSchedule,
  getSchedule,
  listScheduleRuns,
  listSchedules,
  pauseSchedule,
  previewSchedule,
  putSchedule,
  resumeSchedule,
  runSchedule,
} from "../features/schedules/operations.ts";
import {
  deleteSubscription,
  getAnySubscription,
  getSubscription,
  listAllSubscriptions,
  listSubscriptions,
  renewAnySubscription,
  renewSubscription,
  subscribe,
  subscribeUrl,
  unsubscribe,
} from "../features/subscriptions/subscribe.ts";
import {
  deleteDeadLetters,
  replayDeadLetters,
} from "../features/task-admin/act-on-dead-letters.ts";
import {
  cancelAnyTask,
  cancelTask,
  deleteTask,
  editTask,
  replayTask,
} from "../features/task-admin/act-on-task.ts";
import { inspectTask, listTasks } from "../features/task-admin/find-tasks.ts";
import { answeredTasks, answeredToAdmins } from "../features/task-admin/task-replies.ts";
import { claimTasks } from "../features/tasks/claim-tasks.ts";
import { createTask, createTasks } from "../features/tasks/create-task.ts";
import { extendLease } from "../features/tasks/extend-lease.ts";
import { getResult, getTask, getTaskByKey } from "../features/tasks/read-task.ts";
import { abandonTask, nackTask } from "../features/tasks/return-task.ts";
import { submitResult, submitResults } from "../features/tasks/submit-result.ts";
import { taskRoutes } from "../features/tasks/task-routes.ts";
import { deleteTopic, getTopic, listTopics, putTopic } from "../features/topics/operations.ts";
import {
  enableEndpoint,
  getDeliveries,
  listEndpoints,
  listFailedDeliveries,
  listWebhookSecrets,
  redeliverFailed,
  redeliverTask,
  revokeWebhookSecret,
  rotateWebhookSecret,
} from "../features/webhooks/operations.ts";
import { listWorkers } from "../features/workers/operations.ts";

export const operations = {
  createTask,
  createTasks,
  claimTasks,
  extendLease,
  nackTask,
  abandonTask,
  submitResult,
  submitResults,
  getTask,
  getTaskByKey,
  getResult,
  listQueues,
  getQueue,
  listLanes,
  putLane,
  deleteLane,
  pauseLane,
  resumeLane,
  cleanUp,
  listSettings,
  listTenants,
  createApiKey,
  listApiKeys,
  getApiKey,
  revokeApiKey,
  putBatch,
  getBatch,
  sealBatch,
  cancelBatch,
  listBatchResults,
  listBatches,
  getAnyBatch,
  sealAnyBatch,
  cancelAnyBatch,
  listAudit,
  watchEvents,
  listWorkers,
  listTasks,
  inspectTask,
  replayTask,
  deleteTask,
  replayDeadLetters,
  deleteDeadLetters,
  pauseQueue,
  resumeQueue,
  listPauses,
  listFailureGroups,
  triageFailureGroup,
  createBackup,
  readBackup,
  createJob,
  listJobs,
  getJob,
  pauseJob,
  resumeJob,
  abortJob,
  getQueueSeries,
  getSeries,
  getTrends,
  getCluster,
  handOff,
  endCluster,
  addNode,
  removeNode,
  repairCluster,
  getRaftStatus,
  cancelTask,
  cancelAnyTask,
  editTask,
  uploadArtifact,
  downloadArtifact,
  downloadAnyArtifact,
  getDeliveries,
  redeliverTask,
  listFailedDeliveries,
  redeliverFailed,
  listEndpoints,
  enableEndpoint,
  listWebhookSecrets,
  rotateWebhookSecret,
  revokeWebhookSecret,
  subscribe,
  renewSubscription,
  getSubscription,
  listSubscriptions,
  unsubscribe,
  listAllSubscriptions,
  getAnySubscription,
  subscribeUrl,
  renewAnySubscription,
  deleteSubscription,
  putSchedule,
  getSchedule,
  listSchedules,
  deleteSchedule,
  pauseSchedule,
  resumeSchedule,
  runSchedule,
  backfillSchedule,
  listScheduleRuns,
  explainSchedule,
  previewSchedule,
  putTopic,
  getTopic,
  listTopics,
  deleteTopic,
  explainTask,
  explainAnyTask,
  explainWorker,
  watchTask,
  createPublicToken,
} as const;

export const routes: readonly AnyRoute[] = [
  ...contractRoutes(api.work, taskRoutes),
  ...contractRoutes(api.tasks, answeredTasks),
  ...contractRoutes(api.queues, {
    ...operations,
    listQueues: { operation: listQueues, reply: queuesReply },
    cleanUp: { operation: cleanUp, reply: cleanedUpReply },
  }),
  ...contractRoutes(api.jobs, operations),
  ...contractRoutes(api.backups, { createBackup, readBackup: sentBackup }),
  ...contractRoutes(api.apiKeys, operations),
  ...contractRoutes(api.audit, operations),
  ...contractRoutes(api.events, eventRoutes),
  ...contractRoutes(api.workers, operations),
  ...contractRoutes(api.explain, operations),
  ...contractRoutes(api.cluster, operations),
  ...contractRoutes(api.taskAdmin, answeredToAdmins),
  ...contractRoutes(api.deadLetters, operations),
  ...contractRoutes(api.failures, operations),
  ...contractRoutes(api.webhooks, operations),
  ...contractRoutes(api.subscriptions, operations),
  ...contractRoutes(api.schedules, operations),
  ...contractRoutes(api.batches, operations),
  ...contractRoutes(api.artifacts, artifactRoutes),
  ...contractRoutes(api.topics, operations),
  ...contractRoutes(api.lanes, operations),
];
