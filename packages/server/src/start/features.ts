/** The only list of features: their operations, which tests also use, and their routes. */
import { api } from "@codeq/protocol/api";
import { contractRoutes } from "../edge/http/contract-route.ts";
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
import { addMember, removeMember } from "../features/cluster/change-members.ts";
import { clusterRoutes } from "../features/cluster/cluster-routes.ts";
import { endCluster } from "../features/cluster/end-cluster.ts";
import { getCluster, getRaftStatus } from "../features/cluster/get-cluster.ts";
import { handOff } from "../features/cluster/hand-off.ts";
import { repairCluster } from "../features/cluster/repair-cluster.ts";
import { eventRoutes } from "../features/events/event-routes.ts";
import { watchEvents } from "../features/events/watch-events.ts";
import { watchTask } from "../features/events/watch-task.ts";
import { explainAnyTask, explainTask } from "../features/explain/explain-task.ts";
import { explainWorker } from "../features/explain/explain-worker.ts";
import { listFailureGroups, triageFailureGroup } from "../features/failures/operations.ts";
import { jobRoutes } from "../features/jobs/job-routes.ts";
import {
  abortJob,
  createJob,
  getJob,
  listJobs,
  pauseJob,
  resumeJob,
} from "../features/jobs/manage-jobs.ts";
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
  replayTask,
} from "../features/task-admin/act-on-task.ts";
import { editTask } from "../features/task-admin/edit-task.ts";
import { inspectTask } from "../features/task-admin/inspect-task.ts";
import { listTasks } from "../features/task-admin/list-tasks.ts";
import { taskAdminRoutes } from "../features/task-admin/task-admin-routes.ts";
import { abandonTask } from "../features/tasks/abandon-task.ts";
import { claimTasks } from "../features/tasks/claim-tasks.ts";
import { createTask, createTasks } from "../features/tasks/create-task.ts";
import { extendLease } from "../features/tasks/extend-lease.ts";
import { getResult } from "../features/tasks/get-result.ts";
import { getTask } from "../features/tasks/get-task.ts";
import { nackTask } from "../features/tasks/nack-task.ts";
import { submitResult, submitResults } from "../features/tasks/submit-result.ts";
import { taskRoutes } from "../features/tasks/task-routes.ts";
import { deleteTopic, getTopic, listTopics, putTopic } from "../features/topics/operations.ts";
import {
  getDeliveries,
  listFailedDeliveries,
  redeliverFailed,
  redeliverTask,
} from "../features/webhooks/webhook-deliveries.ts";
import { enableEndpoint, listEndpoints } from "../features/webhooks/webhook-endpoints.ts";
import { webhookRoutes } from "../features/webhooks/webhook-routes.ts";
import { listSecrets, revokeSecret, rotateSecret } from "../features/webhooks/webhook-secrets.ts";
import { listWorkers } from "../features/workers/operations.ts";
import { workerRoutes } from "../features/workers/worker-routes.ts";

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
  getResult,
  listQueues,
  getQueue,
  cleanUp,
  listSettings,
  listTenants,
  createApiKey,
  listApiKeys,
  getApiKey,
  revokeApiKey,
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
  addMember,
  removeMember,
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
  listSecrets,
  rotateSecret,
  revokeSecret,
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
  putTopic,
  getTopic,
  listTopics,
  deleteTopic,
  explainTask,
  explainAnyTask,
  explainWorker,
  watchTask,
} as const;

export const routes: readonly AnyRoute[] = [
  ...taskRoutes,
  ...contractRoutes(api.queues, {
    ...operations,
    listQueues: { operation: listQueues, reply: queuesReply },
    cleanUp: { operation: cleanUp, reply: cleanedUpReply },
  }),
  ...jobRoutes,
  ...contractRoutes(api.backups, { createBackup, readBackup: sentBackup }),
  ...contractRoutes(api.apiKeys, operations),
  ...contractRoutes(api.audit, operations),
  ...eventRoutes,
  ...contractRoutes(api.workers, operations),
  ...workerRoutes,
  ...clusterRoutes,
  ...taskAdminRoutes,
  ...contractRoutes(api.failures, operations),
  ...webhookRoutes,
  ...contractRoutes(api.subscriptions, operations),
  ...artifactRoutes,
  ...contractRoutes(api.topics, operations),
];
