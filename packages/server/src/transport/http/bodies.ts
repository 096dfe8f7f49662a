/**
 * The request bodies: how they are read, and what the document of the API says of them. What a schema
 * forbids beyond the type of a value is refused by the operation.
 */
import { limits } from "@codeq/protocol";
import {
  about,
  flag,
  integer,
  list,
  nonEmptyList,
  nonEmptyText,
  object,
  positiveInteger,
  rawObject,
  rawValue,
  requiredInteger,
  requiredText,
  requiredValue,
  type Shape,
  text,
} from "./json-body.ts";

const commandText =
  "The name of the work. Letter case is kept, and ignored when tasks are claimed.";
const payloadText = "What the worker needs to know. Stored and delivered as it is written.";
const leaseToken = about(
  integer,
  "The fencing token of the claim. When given, only the delivery with this token is acted on.",
);

const texts: Shape<string[] | undefined> = list(requiredText);

const createFields = {
  command: about(text, commandText),
  payload: about(rawValue, payloadText),
  priority: about(
    integer,
    `0 to ${limits.priorityMax}; higher ones are claimed first. Values outside are moved to the nearest.`,
  ),
  webhook: about(text, "The URL that gets the result, with http or https.", {
    maxLength: limits.webhookCharsMax,
  }),
  maxAttempts: about(
    integer,
    "Deliveries before the task becomes a dead letter; 0 or less is the server's default.",
    { maximum: limits.maxAttemptsMax },
  ),
  idempotencyKey: about(
    text,
    "A second task with the same key is not created; the first one is answered.",
    { maxLength: limits.idempotencyKeyCharsMax },
  ),
  runAt: about(text, "RFC 3339: when the task may be claimed. Comes before delaySeconds."),
  delaySeconds: about(integer, "Seconds before the task may be claimed.", {
    minimum: 0,
    maximum: limits.delaySecondsMax,
  }),
  tags: about(
    texts,
    "Labels of the task to find it by: 1 to 64 characters without spaces and commas.",
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
    runAt: about(text, "RFC 3339: when the task may be claimed. Comes before delaySeconds."),
    delaySeconds: about(integer, "Seconds before the task may be claimed; 0 for at once.", {
      minimum: 0,
      maximum: limits.delaySecondsMax,
    }),
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
  tasks: about(nonEmptyList(CreateItem), "Each is created or refused by itself."),
});

const claimFields = {
  commands: about(texts, "The commands to claim; empty for every command the token may work on.", {
    maxItems: limits.commandsPerClaimMax,
  }),
  leaseSeconds: about(
    integer,
    "Seconds until the lease ends unless it is extended; 0 or less is the server's default.",
    { maximum: limits.leaseSecondsMax },
  ),
};

export const ClaimBody = object({
  ...claimFields,
  waitSeconds: about(
    integer,
    `Seconds to wait for a task when none is ready; at most ${limits.claimWaitSecondsMax} count.`,
  ),
});
export const ClaimBatchBody = object({
  ...claimFields,
  count: about(positiveInteger, "How many tasks to take at most."),
});

export const HeartbeatBody = object({
  extendSeconds: about(
    integer,
    "Seconds from now until the lease ends; 0 or less is the server's default.",
    { maximum: limits.leaseSecondsMax },
  ),
  leaseToken,
});
export const NackBody = object({
  delaySeconds: about(
    integer,
    "Seconds before the next delivery; 0 or less is the backoff policy.",
  ),
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
  result: about(rawObject, "What the work led to; required for `COMPLETED`."),
  error: about(text, "Why the work failed; required for `FAILED`."),
  artifacts: about(list(artifact), "Files that belong to the result."),
  leaseToken,
  workerId: about(text, "Accepted and not used: the token says who works."),
};

export const ResultBody = object({ ...resultFields, status: about(nonEmptyText, statusText) });
export const ResultItem = object({
  ...resultFields,
  taskId: about(text, "The task that the result belongs to."),
});
export const ResultBatchBody = object({
  results: about(nonEmptyList(ResultItem), "Each is accepted or refused by itself."),
});

const filterFields = {
  command: about(text, "Of this command."),
  priority: about(integer, "Of this priority."),
  worker: about(text, "That this worker had last."),
  createdAfter: about(text, "RFC 3339: created at this moment or later."),
  createdBefore: about(text, "RFC 3339: created before."),
  endedAfter: about(text, "RFC 3339: dead since this moment or later."),
  endedBefore: about(text, "RFC 3339: dead since before."),
  error: about(text, "Whose error contains this text."),
  group: about(text, "Of this failure group."),
  idempotencyKey: about(text, "Created with this idempotency key."),
  payload: about(text, "A value inside the payload: `customer.id:42`."),
  tag: about(text, "With this tag, or with all of several, with commas between them."),
  id: about(text, "Whose id begins like this."),
};

/** Filters of dead letters; one that is passed over would hit what was not meant. */
export const DeadLettersBody = object(
  {
    ids: about(texts, "Ids of dead letters, whole or the beginning of one."),
    all: about(
      flag,
      "Every dead letter that the filters let through; without it ids or a filter is required.",
    ),
    limit: about(integer, "How many to touch at most."),
    dryRun: about(flag, "Only count."),
    ...filterFields,
  },
  { isClosed: true },
);

export const JobBody = object(
  {
    action: about(requiredText, "`replay`, `delete` or `cancel`."),
    all: about(flag, "Every task that the action is for; without it a filter is required."),
    place: about(
      text,
      "Where the tasks are; `dead` by default, all that wait or run for `cancel`.",
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
    dryRun: about(flag, "Only count."),
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
    maxAttempts: about(integer, "Deliveries of the new task before it is a dead letter.", {
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

/** Unknown fields are refused: a policy that is not what was meant must not be kept. */
export const TopicBody = object(
  {
    priorityTiers: about(list(requiredInteger), "Priorities that tasks may have.", {
      minItems: 1,
      maxItems: limits.topicTiersMax,
    }),
    maxAttempts: about(integer, "Deliveries of a task that does not say how many.", {
      minimum: 1,
      maximum: limits.topicAttemptsMax,
    }),
    deadLetterTopicRef: about(text, "The queue that gets a copy of every dead letter."),
    retentionSeconds: about(
      integer,
      "Seconds that finished tasks are kept; 0 for what the server says.",
      { minimum: 0, maximum: limits.topicRetentionSecondsMax },
    ),
    maxConsumers: about(integer, "How many tasks may be leased; 0 for any number.", {
      minimum: 0,
      maximum: limits.topicConsumersMax,
    }),
  },
  { isClosed: true },
);

export const SubscribeBody = object({
  callbackUrl: about(requiredText, "The URL that is told, with http or https.", {
    minLength: 1,
    maxLength: limits.webhookCharsMax,
  }),
  eventTypes: about(
    texts,
    "The commands to hear of, or `*` alone; empty for every command the token may work on.",
    { maxItems: limits.commandsPerClaimMax },
  ),
  ttlSeconds: about(
    integer,
    `Seconds until the subscription ends; 0 or less is ${limits.subscriptionSecondsDefault}.`,
    { maximum: limits.subscriptionSecondsMax },
  ),
  deliveryMode: about(
    text,
    "`fanout`: this subscriber is told. `group`: the members of the group take turns. `hash`: one " +
      "of all such subscribers, another one every minute.",
  ),
  groupId: about(text, "The group, for `group`.", { maxLength: limits.subscriptionGroupCharsMax }),
  minIntervalSeconds: about(
    integer,
    "Seconds between two notifications about the same queue; at least `subscriptionMinIntervalSeconds`.",
    { minimum: 0, maximum: limits.subscriptionIntervalSecondsMax },
  ),
});

export const RenewSubscriptionBody = object({
  ttlSeconds: about(
    integer,
    `Seconds from now until it ends; 0 or less is ${limits.subscriptionSecondsDefault}.`,
    { maximum: limits.subscriptionSecondsMax },
  ),
});

export const PauseBody = object(
  { reason: about(text, `Why, for whoever wonders; at most ${limits.reasonCharsMax} characters.`) },
  { isClosed: true },
);

export const CancelBody = object(
  {
    graceSeconds: about(
      integer,
      `Seconds that a worker which has the task gets to stop; ${limits.cancelGraceSecondsDefault} by default.`,
      { minimum: 0, maximum: limits.cancelGraceSecondsMax },
    ),
  },
  { isClosed: true },
);

export const RedeliverBody = object(
  {
    since: about(requiredText, "RFC 3339: given up at this moment or later."),
    url: about(text, "Only those whose URL begins like this."),
    limit: about(integer, "How many to send at most.", {
      minimum: 0,
      maximum: limits.bulkLimitMax,
    }),
    dryRun: about(flag, "Only count."),
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

export const CleanUpBody = object({
  limit: about(
    integer,
    `How many tasks to delete at most; 0 or less is ${limits.cleanupLimitDefault}.`,
    { maximum: limits.cleanupLimitMax },
  ),
  before: about(text, "RFC 3339: only tasks that finished before are deleted; empty for now."),
});

/** A field that is not known is refused: passed over, it could make a key that may do too much. */
export const CreateApiKeyBody = object(
  {
    name: about(requiredText, "What the key is for.", { minLength: 1 }),
    scopes: about(texts, "What the key may do with tasks, such as `codeq:claim`."),
    eventTypes: about(texts, "The commands of the key; empty or `*` for all.", {
      maxItems: limits.apiKeyEventTypesMax,
    }),
    role: about(text, "`none`, `admin` or `operator`."),
    expiresAt: about(text, "RFC 3339: when the key ends; not together with expiresInSeconds."),
    expiresInSeconds: about(integer, "Seconds until the key ends; 0 for never.", {
      minimum: 0,
      maximum: limits.apiKeySecondsMax,
    }),
  },
  { isClosed: true },
);
