/**
 * The replies of the server, for the OpenAPI document. Readers must ignore unknown fields, because fields
 * are added; the contract tests allow no field that is missing here.
 */
import { errors } from "@codeq/protocol";
import { api, taskPlaces } from "@codeq/protocol/api";
import { comebacks } from "@codeq/queue";
import { deliveryStates } from "../../core/records/delivery-record.ts";
import { holdRules } from "../../features/explain/explain-task.ts";
import { queueRules, workerRules } from "../../features/explain/explain-worker.ts";
import { answerSchemas } from "./contract-schema.ts";
import type { JsonSchema } from "./json-schema.ts";

const string: JsonSchema = { type: "string" };
const boolean: JsonSchema = { type: "boolean" };
const count: JsonSchema = { type: "integer", minimum: 0 };
const time: JsonSchema = { type: "string", format: "date-time" };
const strings: JsonSchema = { type: "array", items: string };

function described(schema: JsonSchema, description: string): JsonSchema {
  return { ...schema, description };
}

export function ref(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

/** All fields are always there, except those that are named as optional. */
function fields(
  required: Readonly<Record<string, JsonSchema>>,
  optional: Readonly<Record<string, JsonSchema>> = {},
): JsonSchema {
  return {
    type: "object",
    properties: { ...required, ...optional },
    required: Object.keys(required),
  };
}

function listOf(items: JsonSchema): JsonSchema {
  return { type: "array", items };
}

const status = { type: "string", enum: ["PENDING", "IN_PROGRESS", "COMPLETED", "FAILED"] };
const ended = { type: "string", enum: ["COMPLETED", "FAILED"] };
const place = ["PENDING_LIST", "DELAYED_ZSET", "INPROG_SET", "DLQ_SET", "NONE"];

const requeuedOrBuried = { type: "string", enum: ["requeued", "dlq"] };

const resultRequired = { taskId: string, status: ended, completedAt: time };
const kept = {
  bytes: count,
  sha256: described(string, "Of the content, in hexadecimal digits."),
  contentType: string,
};
/** One that the server keeps says more than a link. */
const artifact = fields({ name: string, url: string }, kept);
const resultOptional = {
  result: { type: "object" },
  error: string,
  artifacts: listOf(artifact),
};

const itemError = {
  error: described(string, "Why this item was refused."),
  code: described({ type: "string", enum: Object.keys(errors) }, "For programs."),
};
const errorDetails = {
  operation: string,
  scope: string,
  quota: string,
  limit: { type: "number" },
  current: { type: "number" },
  retryAfterSeconds: { type: "integer" },
  bytes: { type: "integer" },
  field: described(string, "Which field of the policy is invalid."),
};

const streams = { worker: { type: "integer" }, producer: { type: "integer" } };

const taskRequired = {
  id: { type: "string", format: "uuid" },
  command: string,
  status,
  lastKnownLocation: { type: "string", enum: place },
  maxAttempts: { type: "integer", minimum: 1 },
  createdAt: time,
  updatedAt: time,
};
const taskOptional = {
  priority: { type: "integer", minimum: 1, maximum: 9 },
  webhook: string,
  traceParent: string,
  traceState: string,
  runAt: described(time, "When the task becomes ready; only while it is delayed."),
  workerId: string,
  leaseUntil: time,
  attempts: { type: "integer", minimum: 1 },
  error: string,
  resultKey: string,
  tenantId: string,
  leaseToken: described({ type: "integer" }, "The fencing token of this attempt."),
  tags: described(strings, "The tags of the task."),
  timeoutSeconds: described({ type: "integer", minimum: 1 }, "How long an attempt may take."),
  ttlSeconds: described(
    { type: "integer", minimum: 1 },
    "How long the task may wait for a worker once it may be claimed.",
  ),
  startBy: described(time, "When the task fails unless a worker has begun it."),
  replays: described({ type: "integer", minimum: 1 }, "How often the task was replayed."),
  replayOf: described(string, "The task that was replayed as this task."),
  replayedAs: described(string, "The last task that this task was replayed as."),
};

const history = {
  attemptHistory: described(
    listOf(
      fields(
        {
          workerId: string,
          leaseToken: { type: "integer", minimum: 1 },
          startedAt: time,
          outcome: { type: "string", enum: ["running", "completed", "failed", ...comebacks] },
        },
        {
          endedAt: time,
          error: described(string, "What the worker said, cut to 200 characters."),
          delaySeconds: described({ type: "number" }, "Until the next attempt could begin."),
        },
      ),
    ),
    "The last 20 attempts and the one under way, the oldest first.",
  ),
  attemptsOmitted: described({ type: "integer", minimum: 1 }, "How many there were before."),
  progress: described(
    fields({ percent: { type: "integer", minimum: 0, maximum: 100 }, text: string, at: time }),
    "How far the work has come, as its worker last said.",
  ),
  logs: described(
    listOf(fields({ at: time, text: string })),
    "What its workers wrote, the last lines.",
  ),
};

const listedRequired = { ...taskRequired, place: { type: "string", enum: [...taskPlaces] } };
const listedOptional = {
  ...taskOptional,
  payload: described(string, "The payload as JSON text."),
  payloadOmitted: described(
    { const: true },
    "The payload is too long for a list; get the task to see it.",
  ),
  idempotencyKey: string,
  cancelledUntil: described(time, "When the worker of a cancelled task loses the task."),
  dueAt: time,
  endedAt: time,
  expiresAt: time,
};

const pause = fields({ by: string, at: time }, { reason: string });

const deadLettersDone = {
  matched: described(count, "Number of tasks that match."),
  failed: listOf(fields({ id: string, code: { type: "string", enum: Object.keys(errors) } })),
  hasMore: described({ type: "boolean" }, "Whether more tasks may match."),
};

const deliveryTry = fields(
  { at: time, durationMs: count },
  { status: described({ type: "integer" }, "Of the answer, if there was one."), error: string },
);
const secret = {
  createdAt: time,
  createdBy: string,
  validUntil: described(time, "When it ceases to sign."),
};

const job = fields(
  {
    id: string,
    action: { type: "string", enum: ["replay", "delete", "cancel", "move"] },
    filter: described({ type: "object" }, "Which tasks, as it was asked for."),
    state: { type: "string", enum: ["running", "paused", "done", "aborted", "stopped"] },
    by: string,
    createdAt: time,
    updatedAt: time,
    ratePerSecond: count,
    matched: described(count, "Tasks found so far."),
    changed: described(count, "Tasks changed so far."),
    failed: described(count, "Tasks that could not be changed."),
    failures: listOf(fields({ id: string, code: string })),
  },
  {
    moveTo: described(string, "The queue that the tasks are moved to."),
    reason: described(string, "Why it is paused or has ended before its time."),
    canary: fields(
      { first: count, factor: count, failurePercent: count },
      {
        stage: described(
          fields({ size: count, waiting: count, succeeded: count, failedAgain: count }),
          "The stage whose outcome is waited for.",
        ),
      },
    ),
  },
);

const replicaFields = {
  role: described(
    string,
    "waiting, following, candidate, opening, leading, steppingDown, behind, ended, diverged or closed.",
  ),
  epoch: described(count, "How often the shard has had another leader."),
  slot: described(count, "The last record of the log that this node has read."),
  index: described(count, "How many records of changes it has applied."),
  silentMs: described(count, "How long nothing was heard of the leader."),
};
const newMembers = {
  members: described(string, "What `clusterMembers` is to be on every node."),
  outdated: described(listOf(string), "Nodes that have another list, or did not answer."),
};
const replicaMore = { leader: string, problem: described(string, "Why it does not follow.") };

export const replySchemas: Readonly<Record<string, JsonSchema>> = {
  Error: fields(
    { error: described(string, "What went wrong and, if possible, what to do.") },
    {
      ...errorDetails,
    },
  ),
  Task: fields(
    { ...taskRequired, payload: described(string, "The payload as JSON text.") },
    taskOptional,
  ),
  TaskWithHistory: fields(
    { ...taskRequired, payload: described(string, "The payload as JSON text.") },
    { ...taskOptional, ...history },
  ),
  ListedTask: fields(listedRequired, listedOptional),
  FoundTasks: fields(
    {
      tasks: listOf({ $ref: "#/components/schemas/ListedTask" }),
      scanned: described(count, "Number of tasks that the server examined."),
    },
    { next: described(string, "Pass it as `after` to get the next page."), total: count },
  ),
  InspectedTask: fields(
    { task: fields(listedRequired, { ...listedOptional, ...history }) },
    { result: { $ref: "#/components/schemas/Result" } },
  ),
  ActedOnTask: fields({ task: { $ref: "#/components/schemas/ListedTask" } }),
  Job: job,
  Jobs: fields({ jobs: listOf({ $ref: "#/components/schemas/Job" }) }),
  JobDryRun: fields({
    matched: described(count, "How many tasks match now."),
    hasMore: described({ type: "boolean" }, "There may be more; so many were counted."),
  }),
  ReplayedDeadLetters: fields({ replayed: count, ...deadLettersDone }),
  DeletedDeadLetters: fields({ deleted: count, ...deadLettersDone }),
  Result: fields(resultRequired, resultOptional),
  SubmittedResult: fields(resultRequired, {
    ...resultOptional,
    repeated: described({ const: true }, "The same result was submitted before."),
    bodyDiffered: described({ const: true }, "The stored result differs from this one."),
  }),
  TaskWithResult: fields({
    result: { $ref: "#/components/schemas/Result" },
    task: { $ref: "#/components/schemas/TaskWithHistory" },
  }),
  CreatedTasks: fields({
    results: listOf({
      oneOf: [
        fields({ task: refTask() }, { idempotentReplayed: { const: true } }),
        fields(itemError, errorDetails),
      ],
    }),
  }),
  Extended: fields(
    { ok: { const: true } },
    { cancelled: described({ const: true }, "The task was cancelled: the worker should stop.") },
  ),
  Abandoned: fields({ status: requeuedOrBuried }),
  Nacked: fields({
    status: requeuedOrBuried,
    delaySeconds: described({ type: "number" }, "Seconds until the retry."),
  }),
  ClaimedTasks: fields({ tasks: listOf(refTask()) }),
  SubmittedResults: fields({
    results: listOf({
      oneOf: [
        fields({ taskId: string, result: { $ref: "#/components/schemas/SubmittedResult" } }),
        fields({ taskId: string, ...itemError }, errorDetails),
      ],
    }),
  }),
  TaskExplanation: fields(
    {
      taskId: string,
      command: string,
      place: { type: "string", enum: [...taskPlaces] },
      rule: described(
        { type: "string", enum: [...holdRules] },
        "What holds the task, for programs.",
      ),
      why: described(string, "The same for people."),
      queue: fields(
        { ready: count, delayed: count, inProgress: count },
        {
          endedPerMinute: described(
            { type: "number" },
            "Attempts of its queue that ended in the last minute.",
          ),
        },
      ),
      workers: fields({
        asking: described(count, "Workers with a claim for its queue that waits."),
        connected: described(count, "Workers with a stream, or with a claim for any queue."),
      }),
    },
    {
      dueAt: time,
      workerId: string,
      since: time,
      leaseUntil: time,
      paused: pause,
      ahead: fields(
        {
          higher: described(count, "Ready tasks of its queue with a higher priority."),
          older: described(count, "Those of its priority that are ready for longer."),
          isAtLeast: described({ type: "boolean" }, "No more were looked at."),
        },
        { isEstimate: described({ const: true }, "Several shards have tasks of the queue.") },
      ),
      startsIn: described(
        fields({ fromSeconds: count, toSeconds: count }),
        "About when it begins, by how fast attempts of its queue ended lately.",
      ),
    },
  ),
  WorkerExplanation: fields(
    {
      workerId: string,
      rule: described(
        { type: "string", enum: [...workerRules] },
        "Why it gets nothing, for programs.",
      ),
      why: described(string, "The same for people."),
      leases: count,
      claims: described(count, "Its claims that wait."),
      streams: count,
      queues: listOf(
        fields(
          {
            command: string,
            rule: { type: "string", enum: [...queueRules] },
            ready: count,
            delayed: count,
            inProgress: count,
          },
          { paused: pause },
        ),
      ),
    },
    {
      connectedAt: time,
      asksFor: described({ anyOf: [strings, { const: "all" }] }, "The queues that it asks for."),
    },
  ),
  Artifact: artifact,
  Deliveries: fields(
    {
      taskId: string,
      state: described(
        { type: "string", enum: ["none", "pending", ...deliveryStates] },
        "`none` without a webhook, `pending` before the task has ended.",
      ),
      total: described(count, "How often it was tried in all."),
      tries: listOf(deliveryTry),
    },
    {
      url: string,
      error: described(string, "Why it was given up."),
      nextTryAt: time,
    },
  ),
  FailedDeliveries: fields(
    {
      failed: listOf(
        fields(
          {
            taskId: string,
            command: string,
            url: string,
            failedAt: time,
            error: string,
            total: count,
          },
          { lastTry: deliveryTry },
        ),
      ),
    },
    { next: described(string, "Pass it as `after` to get the next page.") },
  ),
  Redelivered: fields({ redelivered: count, ...deadLettersDone }),
  Endpoints: fields({
    endpoints: listOf(
      fields(
        { url: string, disabled: { type: "boolean" }, failingSince: time, error: string },
        { disabledAt: time },
      ),
    ),
  }),
  EnabledEndpoint: fields({ url: string, disabled: { const: false } }),
  Secrets: fields({ secrets: listOf(fields({ id: string }, secret)) }),
  CreatedSecret: fields(
    { id: string, secret: described(string, "The secret itself; it is not shown again.") },
    secret,
  ),
  Cluster: fields(
    {
      enabled: described(boolean, "False for a server alone."),
      nodes: listOf(fields({ id: string, address: string }, { url: string })),
      shards: listOf(fields({ shard: count, ...replicaFields }, replicaMore)),
    },
    {
      self: string,
      control: described(
        fields(replicaFields, replicaMore),
        "The log of what is no task: API keys, audit records, subscriptions, bulk jobs.",
      ),
      disk: described(
        fields({
          freeBytes: count,
          minFreeBytes: described(count, "Below this the server refuses writes."),
        }),
        "Of the node that answers; left out when its data is in memory.",
      ),
    },
  ),
  NotLeader: fields({ error: { const: "not leader" }, leader: described(string, "Its base URL.") }),
  AddedNode: fields({
    state: described(
      { enum: ["absent", "copying", "added"] },
      "`absent` until the node answers, `copying` until it follows every log.",
    ),
    logs: listOf(
      fields({
        shard: described(string, "Its number, or `control`."),
        role: described(string, "What the new node does."),
        behind: described(count, "How many records it has not read yet, about."),
      }),
    ),
    ...newMembers,
  }),
  RemovedNode: fields({
    state: described(
      { enum: ["moving", "stop", "removed"] },
      "`moving` while other log servers copy its logs; `stop`: stop the node now.",
    ),
    moving: described(listOf(string), "The shards whose logs are being moved, or `control`."),
    ...newMembers,
  }),
  RepairedCluster: fields({
    logs: listOf(
      fields(
        {
          shard: described(string, "Its number, or `control`."),
          action: described(
            { enum: ["none", "copy", "renew", "refused"] },
            "`copy`: nodes put their data aside and copy that of another; `renew`: a new log continues the data of " +
              "one node.",
          ),
          done: described(boolean, "False when it was not confirmed, or is not needed."),
          copies: listOf(
            fields(
              { node: string, following: boolean, damaged: boolean },
              {
                logId: described(count, "Which log its data is from."),
                epoch: count,
                slot: count,
              },
            ),
          ),
        },
        {
          from: described(string, "The node whose data is continued."),
          nodes: described(listOf(string), "The nodes that copy."),
          why: described(string, "Why it cannot be repaired."),
        },
      ),
    ),
  }),
  EndedCluster: fields({ ended: described(boolean, "False for a server alone.") }),
  HandedOff: fields({
    shards: listOf(
      fields({
        shard: described(string, "Its number, or `control`."),
        from: described(string, "The node that led before."),
        to: described(string, "The node that leads now."),
      }),
    ),
  }),
  RaftStatus: fields(
    { enabled: boolean, numGroups: count },
    {
      groups: listOf(
        fields(
          {
            shardIdx: count,
            isLeader: boolean,
            selfId: string,
            selfAddr: string,
            leaderId: string,
            leaderAddr: string,
            hasLeader: boolean,
          },
          { leaderHTTPAddr: string },
        ),
      ),
    },
  ),
  Health: fields(
    {
      status: string,
      storage: string,
      durability: string,
    },
    {
      shards: { type: "array" },
      instance: string,
      streams: described(fields({}, streams), "The ports of the gRPC streams."),
    },
  ),
  ...answerSchemas(api),
};

/** Usable while the table of schemas is being made. */
function refTask(): JsonSchema {
  return { $ref: "#/components/schemas/Task" };
}
