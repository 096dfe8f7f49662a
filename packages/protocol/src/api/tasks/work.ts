/** Creating tasks and working on them: the hot routes. Their operations check their own inputs. */

import { endpoints, errorCode, errorDetails } from "../../contract/endpoint.ts";
import {
  decimal,
  either,
  flag,
  like,
  list,
  object,
  only,
  raw,
  text,
  whole,
} from "../../contract/shape.ts";
import { limits } from "../../limits.ts";
import { SubmittedResult, Task } from "./tasks.ts";

const isOptional = { isOptional: true } as const;
const isFilled = { isFilled: true } as const;

const command = text(
  "The name of the work. Letter case is kept, and ignored when tasks are claimed.",
  isOptional,
);
const payload = raw("The input of the worker, stored and delivered byte for byte.", isOptional);
const leaseToken = whole(
  "The fencing token of the claim. If present, the request only succeeds for the attempt with this token.",
  isOptional,
);

export const Unique = object({
  key: text("What there is one task of, at a time, in the queue of the tenant.", isOptional),
  while: text(
    "Until when a task holds its key: `unfinished` (default) until it has ended, `waiting` until a worker begins it.",
    { pattern: /^(unfinished|waiting)?$/, isOptional: true },
  ),
  on: text(
    "What a request does that meets the task of its key. `return` (default): the answer is that task. `refuse`: the " +
      "request is refused. `replace` and `latest`: the waiting task gets the payload, the priority and the time of this " +
      "request; while a worker runs the task, one more task waits for its end. `cancel`: like `latest`, and the task " +
      "that runs is cancelled.",
    isOptional,
  ),
  for: text(
    "How long the key is held at least, such as `5m`, also when the task ends before.",
    isOptional,
  ),
  maxWait: text("How long later requests may put off the task, such as `1m`.", isOptional),
});

const used = whole("Units of the rate that the attempt really took; by default the cost.", {
  min: 0,
  max: limits.laneUnitsMax,
  isOptional: true,
});

const createFields = {
  command,
  payload,
  priority: whole(
    `0 to ${limits.priorityMax}; higher priorities are claimed first. Other values are changed to the nearest valid one.`,
    isOptional,
  ),
  webhook: text("The URL that gets the result, with http or https.", {
    pattern: /^$|^https?:/,
    max: limits.webhookCharsMax,
    isOptional: true,
  }),
  maxAttempts: whole(
    "Attempts before the task becomes a dead letter; 0 or less means the server's default.",
    { max: limits.maxAttemptsMax, isOptional: true },
  ),
  idempotencyKey: text(
    "Creates no second task with the same key; the answer is the existing task.",
    { max: limits.idempotencyKeyCharsMax, isOptional: true },
  ),
  unique: like(Unique, "One task at a time for a key of the queue.", isOptional),
  batchId: text(
    "The open batch that the task becomes a member of; its callback waits for the end of the task.",
    { pattern: limits.schedulePattern, isOptional: true },
  ),
  after: list(
    text("", { pattern: limits.taskIdPattern }),
    `Ids of 1 to ${limits.afterMax} tasks: this task is held until all of them have succeeded, and becomes a dead letter when one has not.`,
    { max: limits.afterMax, isOptional: true },
  ),
  lane: text(
    "Limits, rates and fair shares apply to the tasks of the queue with the same lane, such as one customer.",
    isOptional,
  ),
  cost: whole("Units of rates and fair shares that the task takes; 0 for 1.", {
    min: 0,
    max: limits.laneUnitsMax,
    isOptional: true,
  }),
  runAt: text(
    "RFC 3339 time: when the task may be claimed. Takes precedence over delaySeconds.",
    isOptional,
  ),
  delaySeconds: decimal("Seconds before the task may be claimed, to the millisecond.", {
    min: 0,
    max: limits.delaySecondsMax,
    isOptional: true,
  }),
  timeoutSeconds: whole(
    "Seconds that a worker may take for one attempt, however often it extends its lease; then the attempt ends " +
      "with the error `TIMEOUT`. 0 means no timeout.",
    { min: 0, max: limits.timeoutSecondsMax, isOptional: true },
  ),
  ttlSeconds: whole(
    "Seconds in which a worker has to begin the task, from when it may be claimed; otherwise the task fails with " +
      "the error `EXPIRED`. Retries are not concerned. 0 means any time.",
    { min: 0, max: limits.ttlSecondsMax, isOptional: true },
  ),
  tags: list(
    text("", { min: 1, max: 64 }),
    "Tags to find the task by: 1 to 64 characters each, without spaces and commas.",
    { max: limits.tagsMax, isOptional: true },
  ),
};

export const NewTask = object(createFields);
/** A payload of null is as good as none here; 0, false and "" are payloads. */
export const CreateBody = object({
  ...createFields,
  command: text(command.about, { ...isFilled, pattern: limits.commandPattern }),
  payload: raw(payload.about, { isRequired: true }),
});
export const CreateBatchBody = object({
  tasks: list(NewTask, "Each task is created or refused by itself.", isFilled),
});

const claimFields = {
  commands: list(
    text("", { pattern: limits.commandPattern }),
    "The commands to claim (default: every command that the token allows).",
    {
      max: limits.commandsPerClaimMax,
      isOptional: true,
    },
  ),
  leaseSeconds: whole("Length of the lease in seconds; 0 or less means the server's default.", {
    max: limits.leaseSecondsMax,
    isOptional: true,
  }),
};
const waitMax = limits.claimWaitSecondsMax;
export const ClaimBody = object({
  ...claimFields,
  waitSeconds: whole(
    `Seconds to wait if no task is ready; values above ${waitMax} mean ${waitMax}.`,
    isOptional,
  ),
});
export const ClaimBatchBody = object({
  ...claimFields,
  count: whole("Maximum number of tasks to claim.", isFilled),
});

const Progress = object({
  percent: whole("How far the work has come.", { min: 0, max: 100, isOptional: true }),
  text: text(`What is being done; ${limits.progressCharsMax} characters are kept.`, isOptional),
});
export const HeartbeatBody = object({
  progress: like(
    Progress,
    "How far the work has come, for people who look at the task.",
    isOptional,
  ),
  logs: list(
    text(),
    `Lines for people who look at the task; the last ${limits.logLinesMax} are kept.`,
    isOptional,
  ),
  extendSeconds: whole(
    "Seconds from now until the lease expires; 0 or less means the server's default.",
    { max: limits.leaseSecondsMax, isOptional: true },
  ),
  leaseToken,
});
const stack = text(
  `Where in the worker's code it failed, with causes; cut to ${limits.stackCharsMax} characters. Hidden like payloads.`,
  isOptional,
);
export const NackBody = object({
  delaySeconds: decimal(
    "Seconds before the retry, to the millisecond; 0 or less means the backoff policy.",
    isOptional,
  ),
  reason: text("Why the attempt failed.", { max: limits.reasonCharsMax, isOptional: true }),
  stack,
  holdSeconds: whole(
    "Holds the lane of the task for so long: the task keeps its turn, and no attempt is counted, up to 100 times in a " +
      "row. A task without a lane waits by itself.",
    { min: 0, max: limits.holdSecondsMax, isOptional: true },
  ),
  used,
  leaseToken,
});
export const AbandonBody = object({
  interrupted: flag("The worker is stopping: the attempt does not count.", isOptional),
  leaseToken,
});

const SentArtifact = object({
  name: text("The file name.", isOptional),
  url: text("Where the file is; kept as it is.", isOptional),
  contentBase64: text("The file itself, which the server stores.", isOptional),
  contentType: text("The type of the file; `application/octet-stream` by default.", isOptional),
});
const status = text("`COMPLETED` or `FAILED`.", {
  pattern: /^(COMPLETED|FAILED)$/,
  isOptional: true,
});
const resultFields = {
  status,
  result: raw("The output of the task; required for `COMPLETED`.", {
    isObject: true,
    isOptional: true,
  }),
  error: text("Why the task failed; required for `FAILED`.", {
    max: limits.errorCharsMax,
    isOptional: true,
  }),
  stack,
  artifacts: list(SentArtifact, "Files that belong to the result.", isOptional),
  used,
  leaseToken,
  workerId: text(
    "The worker that submits; refused with `not-owner` if it is not the worker of the token.",
    isOptional,
  ),
};
export const ResultBody = object({
  ...resultFields,
  status: text(status.about, { pattern: status.pattern, ...isFilled }),
});
export const NewResult = object({
  ...resultFields,
  taskId: text("The task that the result belongs to.", isOptional),
});
export const ResultBatchBody = object({
  results: list(NewResult, "Each result is accepted or refused by itself.", isFilled),
});

const itemError = {
  error: text("Why this item was refused."),
  code: like(errorCode, "For programs."),
  ...errorDetails,
};
const deduplicated = only(
  true,
  "The task is there for an earlier request with the same unique key.",
  isOptional,
);
const CreatedTasks = object(
  {
    results: list(
      either([
        object({
          task: Task,
          idempotentReplayed: only(true, "", isOptional),
          deduplicated,
          prioritySet: whole("The request asked for a priority that there is not.", isOptional),
        }),
        object(itemError),
      ]),
    ),
  },
  { name: "CreatedTasks" },
);
const SubmittedResults = object(
  {
    results: list(
      either([
        object({ taskId: text(), result: SubmittedResult }),
        object({ ...itemError, taskId: text() }),
      ]),
    ),
  },
  { name: "SubmittedResults" },
);
const Extended = object(
  {
    ok: only(true),
    cancelled: only(true, "The task was cancelled: the worker should stop.", isOptional),
  },
  { name: "Extended" },
);
const returnedTo = text("", { oneOf: ["requeued", "dlq"] });
const Abandoned = object({ status: returnedTo }, { name: "Abandoned" });
const Nacked = object(
  { status: returnedTo, delaySeconds: decimal("Seconds until the retry.") },
  { name: "Nacked" },
);
const ClaimedTasks = object({ tasks: list(Task) }, { name: "ClaimedTasks" });

const params = { id: text("The id of the task.") };
const ofOwners = ["task_unknown", "not_owner", "not_in_progress"] as const;
const producer = { access: "producer", scope: "codeq:create" } as const;
const claimer = {
  access: "worker",
  scope: "codeq:claim",
  refusals: ["invalid_argument", "invalid_command", "event_type_not_allowed"],
} as const;
const noneReady = { about: "No task is ready." };

const forLargeBodies =
  "upload large files with PUT /v1/codeq/tasks/:id/artifacts/:name before the result, and leave them out of it";

export const work = endpoints({
  createTask: {
    key: "POST /tasks",
    ...producer,
    summary: "Create a task",
    redirects: true,
    body: CreateBody,
    refusals: [
      "priority_not_allowed",
      "invalid_argument",
      "invalid_command",
      "event_type_not_allowed",
      "idempotency_key_reused",
      "unique_key_held",
      "batch_not_found",
      "batch_sealed",
      "batch_full",
      "after_unknown",
      "after_failed",
      "after_waits",
      "after_full",
      "after_crowded",
      "cost_above_burst",
      "placement_conflict",
      "payload_too_large",
    ],
    replies: {
      202: {
        about:
          "The task, or the one that was created before with the same idempotency key or unique key.",
        shape: object({ ...Task.fields, deduplicated }, { name: "CreatedTask" }),
        headers: {
          "Idempotent-Replayed": "`true` when the task had been created before.",
          "Codeq-Priority-Set":
            "The priority of the task, when the one that was asked for is not from 0 to 9.",
        },
      },
    },
  },
  createTasks: {
    key: "POST /tasks/batch",
    ...producer,
    summary: "Create several tasks",
    body: CreateBatchBody,
    refusals: ["priority_not_allowed", "invalid_argument"],
    replies: { 200: { about: "A task or a refusal for each, in order.", shape: CreatedTasks } },
  },
  claimTask: {
    key: "POST /tasks/claim",
    ...claimer,
    summary: "Claim the next task",
    about: "An empty object claims a task of any command that the token allows.",
    redirects: true,
    body: ClaimBody,
    replies: { 200: { about: "The task, leased to the caller.", shape: Task }, 204: noneReady },
  },
  claimTasks: {
    key: "POST /tasks/claim/batch",
    ...claimer,
    summary: "Claim several tasks",
    body: ClaimBatchBody,
    replies: {
      200: { about: "The tasks, leased to the caller.", shape: ClaimedTasks },
      204: noneReady,
    },
  },
  extendLease: {
    key: "POST /tasks/:id/heartbeat",
    access: "worker",
    scope: "codeq:heartbeat",
    summary: "Extend the lease of a task",
    redirects: true,
    params,
    body: HeartbeatBody,
    refusals: ["invalid_argument", ...ofOwners],
    replies: { 200: { about: "The lease is extended.", shape: Extended } },
  },
  abandonTask: {
    key: "POST /tasks/:id/abandon",
    access: "worker",
    scope: "codeq:abandon",
    summary: "Abandon a task",
    redirects: true,
    params,
    body: AbandonBody,
    bodyOptional: true,
    refusals: ofOwners,
    replies: { 200: { about: "Where the task is now.", shape: Abandoned } },
  },
  nackTask: {
    key: "POST /tasks/:id/nack",
    access: "worker",
    scope: "codeq:nack",
    summary: "Report a failed attempt",
    redirects: true,
    params,
    body: NackBody,
    refusals: ["invalid_argument", ...ofOwners],
    replies: { 200: { about: "Where the task is now.", shape: Nacked } },
  },
  submitResult: {
    key: "POST /tasks/:id/result",
    access: "worker",
    scope: "codeq:result",
    summary: "Submit the result of a task",
    redirects: true,
    params,
    body: ResultBody,
    forLargeBodies,
    invalidBody: "invalid request body",
    refusals: [
      "invalid_argument",
      "task_not_found",
      "not_owner",
      "not_in_progress",
      "artifact_too_large",
      "artifacts_unavailable",
    ],
    replies: {
      200: {
        about: "The result as it is stored.",
        shape: SubmittedResult,
        headers: { "Codeq-Body-Differed": "`true` when the stored result says something else." },
      },
    },
  },
  submitResults: {
    key: "POST /tasks/batch/results",
    access: "worker",
    scope: "codeq:result",
    summary: "Submit several results",
    body: ResultBatchBody,
    forLargeBodies,
    refusals: ["invalid_argument"],
    replies: {
      200: { about: "A result or a refusal for each, in order.", shape: SubmittedResults },
    },
  },
});
