/** The table of all operations; transports and tests use this table. */
import { abandonTask } from "./abandon-task.ts";
import { deleteDeadLetters, replayDeadLetters } from "./act-on-dead-letters.ts";
import { cancelAnyTask, cancelTask, deleteTask, replayTask } from "./act-on-task.ts";
import { addMember, removeMember } from "./change-members.ts";
import { claimTasks } from "./claim-tasks.ts";
import { cleanUp } from "./clean-up.ts";
import { createApiKey } from "./create-api-key.ts";
import { createBackup } from "./create-backup.ts";
import { createTask, createTasks } from "./create-task.ts";
import { downloadAnyArtifact, downloadArtifact } from "./download-artifact.ts";
import { editTask } from "./edit-task.ts";
import { endCluster } from "./end-cluster.ts";
import { explainAnyTask, explainTask } from "./explain-task.ts";
import { explainWorker } from "./explain-worker.ts";
import { extendLease } from "./extend-lease.ts";
import { getCluster, getRaftStatus } from "./get-cluster.ts";
import { getResult } from "./get-result.ts";
import { getSeries } from "./get-series.ts";
import { getTask } from "./get-task.ts";
import { getTrends } from "./get-trends.ts";
import { handOff } from "./hand-off.ts";
import { inspectTask } from "./inspect-task.ts";
import { getApiKey, listApiKeys } from "./list-api-keys.ts";
import { listAudit } from "./list-audit.ts";
import { listFailureGroups } from "./list-failure-groups.ts";
import { listSettings } from "./list-settings.ts";
import { listTasks } from "./list-tasks.ts";
import { listTenants } from "./list-tenants.ts";
import { listWorkers } from "./list-workers.ts";
import { abortJob, createJob, getJob, listJobs, pauseJob, resumeJob } from "./manage-jobs.ts";
import { nackTask } from "./nack-task.ts";
import { listPauses, pauseQueue, resumeQueue } from "./pause-queue.ts";
import { getQueue, listQueues } from "./queue-counts.ts";
import { readBackup } from "./read-backup.ts";
import { repairCluster } from "./repair-cluster.ts";
import { revokeApiKey } from "./revoke-api-key.ts";
import { submitResult, submitResults } from "./submit-result.ts";
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
} from "./subscribe.ts";
import { deleteTopic, getTopic, listTopics, putTopic } from "./topics.ts";
import { triageFailures } from "./triage-failures.ts";
import { uploadArtifact } from "./upload-artifact.ts";
import { watchEvents } from "./watch-events.ts";
import { watchTask } from "./watch-task.ts";
import {
  getDeliveries,
  listFailedDeliveries,
  redeliverFailed,
  redeliverTask,
} from "./webhook-deliveries.ts";
import { enableEndpoint, listEndpoints } from "./webhook-endpoints.ts";
import { listSecrets, revokeSecret, rotateSecret } from "./webhook-secrets.ts";

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
  triageFailures,
  createBackup,
  readBackup,
  createJob,
  listJobs,
  getJob,
  pauseJob,
  resumeJob,
  abortJob,
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
