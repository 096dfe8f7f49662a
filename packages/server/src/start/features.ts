/** The only list of features: their operations, which tests also use, and their routes. */
import { api } from "@codeq/protocol/api";
import { contractRoutes } from "../edge/http/contract/contract-route.ts";
import type { AnyRoute } from "../edge/http/route.ts";
import * as apiKeys from "../features/api-keys/operations.ts";
import { artifactRoutes } from "../features/artifacts/artifact-routes.ts";
import * as downloads from "../features/artifacts/download-artifact.ts";
import * as uploads from "../features/artifacts/upload-artifact.ts";
import * as audit from "../features/audit/operations.ts";
import { createBackup, readBackup, sentBackup } from "../features/backups/operations.ts";
import * as batches from "../features/batches/operations.ts";
import * as cluster from "../features/cluster/operations.ts";
import { eventRoutes } from "../features/events/event-routes.ts";
import { watchEvents } from "../features/events/watch-events.ts";
import { createPublicToken, watchTask } from "../features/events/watch-task.ts";
import { explainAnyTask, explainTask } from "../features/explain/explain-task.ts";
import { explainWorker } from "../features/explain/explain-worker.ts";
import * as failures from "../features/failures/operations.ts";
import * as jobs from "../features/jobs/operations.ts";
import * as lanes from "../features/lanes/operations.ts";
import * as queues from "../features/queues/operations.ts";
import { cleanedUpReply, queuesReply } from "../features/queues/queue-replies.ts";
import * as schedules from "../features/schedules/operations.ts";
import * as subscriptions from "../features/subscriptions/subscribe.ts";
import * as deadLetters from "../features/task-admin/act-on-dead-letters.ts";
import {
  cancelAnyTask,
  cancelTask,
  deleteTask,
  editTask,
  replayTask,
} from "../features/task-admin/act-on-task.ts";
import * as foundTasks from "../features/task-admin/find-tasks.ts";
import { answeredTasks, answeredToAdmins } from "../features/task-admin/task-replies.ts";
import { claimTasks } from "../features/tasks/claim-tasks.ts";
import { createTask, createTasks } from "../features/tasks/create-task.ts";
import { extendLease } from "../features/tasks/extend-lease.ts";
import { getResult, getTask, getTaskByKey } from "../features/tasks/read-task.ts";
import { abandonTask, nackTask } from "../features/tasks/return-task.ts";
import { submitResult, submitResults } from "../features/tasks/submit-result.ts";
import { taskRoutes } from "../features/tasks/task-routes.ts";
import * as topics from "../features/topics/operations.ts";
import * as webhooks from "../features/webhooks/operations.ts";
import * as workers from "../features/workers/operations.ts";

const { createApiKey, listApiKeys, getApiKey, revokeApiKey } = apiKeys;
const explain = { explainTask, explainAnyTask, explainWorker };

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
  cancelTask,
  cancelAnyTask,
  deleteTask,
  editTask,
  replayTask,
  createApiKey,
  listApiKeys,
  getApiKey,
  revokeApiKey,
  createBackup,
  readBackup,
  watchEvents,
  watchTask,
  createPublicToken,
  ...audit,
  ...batches,
  ...cluster,
  ...deadLetters,
  ...downloads,
  ...explain,
  ...failures,
  ...foundTasks,
  ...jobs,
  ...lanes,
  ...queues,
  ...schedules,
  ...subscriptions,
  ...topics,
  ...uploads,
  ...webhooks,
  ...workers,
} as const;

export const routes: readonly AnyRoute[] = [
  ...contractRoutes(api.work, taskRoutes),
  ...contractRoutes(api.tasks, answeredTasks),
  ...contractRoutes(api.queues, {
    ...queues,
    listQueues: { operation: operations.listQueues, reply: queuesReply },
    cleanUp: { operation: operations.cleanUp, reply: cleanedUpReply },
  }),
  ...contractRoutes(api.jobs, jobs),
  ...contractRoutes(api.backups, { createBackup, readBackup: sentBackup }),
  ...contractRoutes(api.apiKeys, apiKeys),
  ...contractRoutes(api.audit, audit),
  ...contractRoutes(api.events, eventRoutes),
  ...contractRoutes(api.workers, workers),
  ...contractRoutes(api.explain, explain),
  ...contractRoutes(api.cluster, cluster),
  ...contractRoutes(api.taskAdmin, answeredToAdmins),
  ...contractRoutes(api.deadLetters, deadLetters),
  ...contractRoutes(api.failures, failures),
  ...contractRoutes(api.webhooks, webhooks),
  ...contractRoutes(api.subscriptions, subscriptions),
  ...contractRoutes(api.schedules, schedules),
  ...contractRoutes(api.batches, batches),
  ...contractRoutes(api.artifacts, artifactRoutes),
  ...contractRoutes(api.topics, topics),
  ...contractRoutes(api.lanes, lanes),
];
