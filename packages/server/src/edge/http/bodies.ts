/**
 * The request bodies: how they are parsed, and their schemas for the OpenAPI document. What a schema forbids
 * beyond the type of a value is refused by the operation.
 */
import { limits } from "@codeq/protocol";
import { reportLimits } from "@codeq/queue";
import {
  about,
  flag,
  integer,
  list,
  nonEmptyList,
  nonEmptyText,
  object,
  optional,
  positiveInteger,
  rawObject,
  rawValue,
  requiredText,
  requiredValue,
  type Shape,
  text,
} from "./json-body.ts";

const commandText =
  "The name of the work. Letter case is kept, and ignored when tasks are claimed.";
const payloadText = "The input of the worker, stored and delivered byte for byte.";
const leaseToken = about(
  integer,
  "The fencing token of the claim. If present, the request only succeeds for the attempt with this token.",
);

const texts: Shape<string[] | undefined> = list(requiredText);

const createFields = {
  command: about(text, commandText),
  payload: about(rawValue, payloadText),
  priority: about(
    integer,
    `0 to ${limits.priorityMax}; higher priorities are claimed first. Other values are changed to the nearest valid one.`,
  ),
  webhook: about(text, "The URL that gets the result, with http or https.", {
    maxLength: limits.webhookCharsMax,
  }),
  maxAttempts: about(
    integer,
    "Attempts before the task becomes a dead letter; 0 or less means the server's default.",
    { maximum: limits.maxAttemptsMax },
  ),
  idempotencyKey: about(
    text,
    "Creates no second task with the same key; the answer is the existing task.",
    { maxLength: limits.idempotencyKeyCharsMax },
  ),
  runAt: about(
    text,
    "RFC 3339 time: when the task may be claimed. Takes precedence over delaySeconds.",
  ),
  delaySeconds: about(integer, "Seconds before the task may be claimed.", {
    minimum: 0,
    maximum: limits.delaySecondsMax,
  }),
  timeoutSeconds: about(
    integer,
    "Seconds that a worker may take for one attempt, however often it extends its lease; then the attempt ends " +
      "with the error `TIMEOUT`. 0 means no timeout.",
    { minimum: 0, maximum: limits.timeoutSecondsMax },
  ),
  ttlSeconds: about(
    integer,
    "Seconds in which a worker has to begin the task, from when it may be claimed; otherwise the task fails with " +
      "the error `EXPIRED`. Retries are not concerned. 0 means any time.",
    { minimum: 0, maximum: limits.ttlSecondsMax },
  ),
  tags: about(
    texts,
    "Tags to find the task by: 1 to 64 characters each, without spaces and commas.",
    {
      maxItems: limits.tagsMax,
    },
  ),
};

/** What is left out stays as it is. */
export const EditTaskBody = object(
  {
    command: about(text, "The queue to move the task to."),
    priority: about(
      integer,
      `0 to ${limits.priorityMax}; the task goes to the back of its priority.`,
    ),
    payload: about(rawValue, "The new payload."),
    runAt: about(
      text,
      "RFC 3339 time: when the task may be claimed. Takes precedence over delaySeconds.",
    ),
    delaySeconds: about(
      integer,
      "Seconds before the task may be claimed; 0 makes the task ready now.",
      {
        minimum: 0,
        maximum: limits.delaySecondsMax,
      },
    ),
  },
  { isClosed: true },
);

export const CreateItem = object(createFields);
/** A payload of null is as good as none here; 0, false and "" are payloads. */
export const CreateBody = object({
  ...createFields,
  command: about(nonEmptyText, commandText),
  payload: about(requiredValue, payloadText),
});
export const CreateBatchBody = object({
  tasks: about(nonEmptyList(CreateItem), "Each task is created or refused by itself."),
});

const claimFields = {
  commands: about(texts, "The commands to claim (default: every command that the token allows).", {
    maxItems: limits.commandsPerClaimMax,
  }),
  leaseSeconds: about(
    integer,
    "Length of the lease in seconds; 0 or less means the server's default.",
    { maximum: limits.leaseSecondsMax },
  ),
};

export const ClaimBody = object({
  ...claimFields,
  waitSeconds: about(
    integer,
    `Seconds to wait if no task is ready; values above ${limits.claimWaitSecondsMax} mean ${limits.claimWaitSecondsMax}.`,
  ),
});
export const ClaimBatchBody = object({
  ...claimFields,
  count: about(positiveInteger, "Maximum number of tasks to claim."),
});

const progress = object({
  percent: about(integer, "How far the work has come.", { minimum: 0, maximum: 100 }),
  text: about(text, `What is being done; ${reportLimits.textCharsMax} characters are kept.`),
});

export const HeartbeatBody = object({
  progress: about(
    optional(progress),
    "How far the work has come, for people who look at the task.",
  ),
  logs: about(
    texts,
    `Lines for people who look at the task; the last ${reportLimits.linesMax} are kept.`,
  ),
  extendSeconds: about(
    integer,
    "Seconds from now until the lease expires; 0 or less means the server's default.",
    { maximum: limits.leaseSecondsMax },
  ),
  leaseToken,
});
export const NackBody = object({
  delaySeconds: about(integer, "Seconds before the retry; 0 or less means the backoff policy."),
  reason: about(text, "Why the attempt failed."),
  leaseToken,
});
export const AbandonBody = object({
  interrupted: about(flag, "The worker is stopping: the attempt does not count."),
  leaseToken,
});

const artifact = object({
  name: about(text, "The file name."),
  url: about(text, "Where the file is; kept as it is."),
  contentBase64: about(text, "The file itself, which the server stores."),
  contentType: about(text, "The type of the file; `application/octet-stream` by default."),
});
const statusText = "`COMPLETED` or `FAILED`.";
const resultFields = {
  status: about(text, statusText),
  result: about(rawObject, "The output of the task; required for `COMPLETED`."),
  error: about(text, "Why the task failed; required for `FAILED`."),
  artifacts: about(list(artifact), "Files that belong to the result."),
  leaseToken,
  workerId: about(text, "Ignored: the token identifies the worker."),
};

export const ResultBody = object({ ...resultFields, status: about(nonEmptyText, statusText) });
export const ResultItem = object({
  ...resultFields,
  taskId: about(text, "The task that the result belongs to."),
});
export const ResultBatchBody = object({
  results: about(nonEmptyList(ResultItem), "Each result is accepted or refused by itself."),
});

const filterFields = {
  command: about(text, "Only tasks of this command."),
  priority: about(integer, "Only tasks of this priority."),
  worker: about(text, "Only tasks that this worker held last."),
  createdAfter: about(text, "RFC 3339 time: only tasks created at or after this time."),
  createdBefore: about(text, "RFC 3339 time: only tasks created before this time."),
  endedAfter: about(text, "RFC 3339 time: only dead letters since this time or later."),
  endedBefore: about(text, "RFC 3339 time: only dead letters since before this time."),
  error: about(text, "Only tasks whose error contains this text."),
  group: about(text, "Of this failure group."),
  idempotencyKey: about(text, "Only the task with this idempotency key."),
  payload: about(text, "Only tasks with this value in the payload, such as `customer.id:42`."),
  tag: about(text, "Only tasks with this tag, or with all of several tags separated by commas."),
  id: about(text, "Only tasks whose id begins or ends with these characters."),
};

/** Filters of dead letters; one that is passed over would hit what was not meant. */
export const DeadLettersBody = object(
  {
    ids: about(texts, "Ids of dead letters, or the beginning or end of ids."),
    all: about(
      flag,
      "Select all dead letters that match the filters; without `all`, ids or a filter are required.",
    ),
    limit: about(integer, "Maximum number of tasks to change."),
    dryRun: about(flag, "Only count the tasks; change nothing."),
    ...filterFields,
  },
  { isClosed: true },
);

export const HandOffBody = object(
  {
    shard: about(text, "The number of a shard, or `control`; default: all of them."),
    to: about(text, "The id of the node that is to lead; default: whichever is next."),
  },
  { isClosed: true },
);

export const EndClusterBody = object(
  { confirm: about(flag, "Has to be true: the cluster accepts nothing afterwards.") },
  { isClosed: true },
);

export const AddNodeBody = object(
  {
    node: about(requiredText, "The new node, as in clusterMembers: `id=host:port`.", {
      minLength: 1,
    }),
  },
  { isClosed: true },
);

export const RemoveNodeBody = object(
  { node: about(requiredText, "The id of the node.", { minLength: 1 }) },
  { isClosed: true },
);

export const RepairClusterBody = object(
  {
    shard: about(text, "The number of a shard, or `control`; default: all of them."),
    without: about(texts, "Nodes that are permanently lost, with everything that they had."),
    from: about(text, "The node whose data counts; default: the newest."),
    confirm: about(flag, "Whether to repair; default: only say what would be done."),
  },
  { isClosed: true },
);

export const JobBody = object(
  {
    action: about(requiredText, "`replay`, `delete`, `cancel` or `move`."),
    all: about(flag, "Every task that the action is for; without it a filter is required."),
    place: about(
      text,
      "Where the tasks are (default: `dead`; for `cancel` all that wait or run, for `move` all that wait).",
    ),
    ...filterFields,
    ratePerSecond: about(integer, `Tasks a second; ${limits.jobRateDefault} by default.`, {
      minimum: 1,
      maximum: limits.jobRateMax,
    }),
    graceSeconds: about(integer, "For `cancel`: seconds that a worker gets to stop.", {
      minimum: 0,
      maximum: limits.cancelGraceSecondsMax,
    }),
    moveTo: about(text, "For `move`: the queue to move the tasks to."),
    dryRun: about(flag, "Only count the tasks; change nothing."),
    canary: about(flag, "For `replay`: few tasks first, and more while enough of them succeed."),
    canaryFirst: about(integer, "How many tasks the first stage replays; 10 by default."),
    canaryFactor: about(integer, "How much larger each stage is; 2 by default."),
    canaryFailurePercent: about(
      integer,
      "The job stops when more of a stage fail again; 20 by default.",
    ),
  },
  { isClosed: true },
);

/** What is different in the new task; without any of it the dead letter itself is replayed. */
export const ReplayBody = object(
  {
    payload: about(rawValue, "The payload of the new task."),
    command: about(text, "The queue of the new task."),
    priority: about(integer, "The priority of the new task.", {
      minimum: 0,
      maximum: limits.priorityMax,
    }),
    maxAttempts: about(integer, "Attempts of the new task before it is a dead letter.", {
      minimum: 1,
      maximum: limits.maxAttemptsMax,
    }),
    delaySeconds: about(integer, "Seconds before the new task may be claimed.", {
      minimum: 0,
      maximum: limits.delaySecondsMax,
    }),
  },
  { isClosed: true },
);

export const CancelBody = object(
  {
    graceSeconds: about(
      integer,
      `Seconds that the worker of a running task gets to stop (default: ${limits.cancelGraceSecondsDefault}).`,
      { minimum: 0, maximum: limits.cancelGraceSecondsMax },
    ),
  },
  { isClosed: true },
);

export const RedeliverBody = object(
  {
    since: about(requiredText, "RFC 3339 time: webhooks given up at or after this time."),
    url: about(text, "Only those whose URL begins like this."),
    limit: about(integer, "How many to send at most.", {
      minimum: 0,
      maximum: limits.bulkLimitMax,
    }),
    dryRun: about(flag, "Only count the tasks; change nothing."),
  },
  { isClosed: true },
);

export const EnableEndpointBody = object(
  { url: about(requiredText, "The URL of the endpoint; its query is ignored.") },
  { isClosed: true },
);

export const RotateSecretBody = object(
  {
    overlapSeconds: about(
      integer,
      `Seconds in which the secret before it signs as well; default: ${limits.secretOverlapSecondsDefault}.`,
      { minimum: 0, maximum: limits.secretOverlapSecondsMax },
    ),
  },
  { isClosed: true },
);
