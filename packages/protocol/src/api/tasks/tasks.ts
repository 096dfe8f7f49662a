/** Tasks and their results, as producers, workers and administrators see them. */

import { endpoints, pageOf, pageQuery } from "../../contract/endpoint.ts";
import {
  count,
  decimal,
  instant,
  like,
  list,
  object,
  only,
  raw,
  text,
  whole,
} from "../../contract/shape.ts";
import { limits } from "../../limits.ts";
import { Artifact } from "./artifacts.ts";
import { taskFilter, taskPlaces } from "./task-filter.ts";

const isOptional = { isOptional: true } as const;
const positive = { min: 1, isOptional: true } as const;
const payload = text("The payload as JSON text.");

const head = { id: text("", { format: "uuid" }), command: text("The name of the work.") };
const taskFields = {
  priority: whole("0 if missing.", { ...positive, max: limits.priorityMax }),
  webhook: text("", isOptional),
  traceParent: text("", isOptional),
  traceState: text("", isOptional),
  status: text(
    "`PENDING` waits, `IN_PROGRESS` is at a worker, `COMPLETED` and `FAILED` have ended.",
    { oneOf: ["PENDING", "IN_PROGRESS", "COMPLETED", "FAILED"] },
  ),
  lastKnownLocation: text("", {
    oneOf: ["PENDING_LIST", "DELAYED_ZSET", "HELD_SET", "INPROG_SET", "DLQ_SET", "NONE"],
  }),
  runAt: instant("When the task becomes ready; only while it is delayed.", isOptional),
  workerId: text(
    "The worker that has the task; for administrators also the one that finished it.",
    isOptional,
  ),
  leaseUntil: instant("When the lease ends, unless the worker extends it.", isOptional),
  attempts: whole("Attempts that came back; 0 if missing.", positive),
  maxAttempts: whole("Attempts before the task becomes a dead letter.", { min: 1 }),
  error: text("The last failure.", isOptional),
  resultKey: text(
    "A name for the result, once the task has ended; `GET /tasks/:id/result` reads the result. It is not a key of the store.",
    isOptional,
  ),
  tenantId: text("", isOptional),
  createdAt: instant(),
  updatedAt: instant(),
  leaseToken: whole("The fencing token of this attempt.", isOptional),
  replayOf: text("The task that was replayed as this task.", isOptional),
  replayedAs: text("The last task that this task was replayed as.", isOptional),
  replays: whole("How often the task was replayed.", positive),
  tags: list(text(), "The tags of the task.", isOptional),
  timeoutSeconds: whole("How long an attempt may take.", positive),
  ttlSeconds: whole("How long the task may wait for a worker once it may be claimed.", positive),
  startBy: instant("When the task fails unless a worker has begun it.", isOptional),
  scheduleId: text("The schedule that created the task.", isOptional),
  uniqueKey: text("There is one task at a time with this key in the queue.", isOptional),
  lane: text("The lane of the task in its queue.", isOptional),
  cost: whole("Units of rates and fair shares that the task takes; 1 if missing.", positive),
  replaced: whole("How often a later request with the unique key has changed the task.", positive),
  replacedSince: instant("When the first of the requests came.", isOptional),
  waitsForKey: only(
    true,
    "The task waits for the end of the task with its unique key.",
    isOptional,
  ),
  scheduledFor: instant("The nominal instant that the task was created for.", isOptional),
  batchId: text("The batch that the task belongs to.", isOptional),
  isBatchCallback: only(true, "The task is the callback of the batch.", isOptional),
  batchEnded: object(
    { succeeded: count(), failed: count(), cancelled: count() },
    { about: "How the members ended; only of a callback that was released.", ...isOptional },
  ),
};

export const TaskAttempt = object(
  {
    workerId: text(),
    leaseToken: whole("Which attempt it is, from 1 on.", { min: 1 }),
    startedAt: instant(),
    endedAt: instant("Missing while the worker has the task.", isOptional),
    outcome: text("", {
      oneOf: [
        "running",
        "completed",
        "failed",
        "nacked",
        "abandoned",
        "interrupted",
        "expired",
        "unsent",
        "cancelled",
        "timed_out",
      ],
    }),
    error: text("What the worker said, cut to 200 characters.", isOptional),
    stack: text(
      "Where in the worker's code it failed, with causes; of the newest attempts. Hidden like payloads.",
      isOptional,
    ),
    delaySeconds: decimal("Until the next attempt could begin.", isOptional),
  },
  { about: "An attempt of a task: one worker, one lease." },
);
const history = {
  attemptHistory: list(
    TaskAttempt,
    "The last 20 attempts and the one under way, the oldest first.",
    isOptional,
  ),
  attemptsOmitted: whole("How many there were before.", positive),
  progress: object(
    { percent: whole("", { min: 0, max: 100 }), text: text(), at: instant() },
    { about: "How far the work has come, as its worker last said.", ...isOptional },
  ),
  logs: list(
    object({ at: instant(), text: text() }),
    "What its workers wrote, the last lines.",
    isOptional,
  ),
};

export const TaskHistory = object(history, { about: "What happened to a task so far." });
export const TaskState = object(
  { ...head, ...taskFields },
  { about: "What every answer about a task has." },
);

export const Task = object({ ...head, payload, ...taskFields }, { name: "Task" });
export const TaskWithHistory = object(
  { ...Task.fields, ...history },
  { name: "TaskWithHistory", about: "A task as its producer sees it." },
);

const listed = {
  ...head,
  payload: like(payload, "The payload as JSON text; lists leave out a long one.", isOptional),
  ...taskFields,
  place: text("Where the task is; `failed`: it ended without being a dead letter.", {
    oneOf: taskPlaces,
  }),
  payloadOmitted: only(
    true,
    "The payload is too long for a list; get the task to see it.",
    isOptional,
  ),
  idempotencyKey: text("", isOptional),
  cancelledUntil: instant("When the worker of a cancelled task loses the task.", isOptional),
  dueAt: instant("When a delayed task becomes ready.", isOptional),
  endedAt: instant("", isOptional),
  expiresAt: instant(
    "When the task is deleted; missing for a dead letter that is kept forever.",
    isOptional,
  ),
};
export const ListedTask = object(listed, {
  name: "ListedTask",
  about: "A task of the tenant, of any producer.",
});
const ActedOnTask = object({ task: ListedTask }, { name: "ActedOnTask" });

export const FoundTasks = like(
  pageOf("FoundTasks", "tasks", ListedTask, {
    scanned: count("Number of tasks that the server examined."),
    total: count("How many there are in all, where a counter knows.", isOptional),
  }),
  "Some of the tasks that match. A page may be short, or empty, and still have a next one.",
);

const resultFields = {
  taskId: text(),
  status: text("", { oneOf: ["COMPLETED", "FAILED"] }),
  result: raw("", { isObject: true, isOptional: true }),
  error: text("", isOptional),
  artifacts: list(Artifact, "", isOptional),
  completedAt: instant(),
};
export const Result = object(resultFields, { name: "Result", about: "How a task ended." });
/** The last event in the feed of a task. */
export const ResultEvent = object(
  {
    event: only("result"),
    ...resultFields,
    resultOmitted: only(
      true,
      "The result is longer than 64 KiB; `run.result()` gives it.",
      isOptional,
    ),
  },
  { about: "The result of a task." },
);
export const SubmittedResult = object(
  {
    ...resultFields,
    repeated: only(true, "The same result was submitted before.", isOptional),
    bodyDiffered: only(true, "The stored result differs from this one.", isOptional),
  },
  { name: "SubmittedResult" },
);

export const InspectedTask = object(
  { task: object({ ...listed, ...history }), result: like(Result, "", isOptional) },
  {
    name: "InspectedTask",
    about: "A task with its payload and, once it has ended, its result.",
  },
);

const commandOf = (about: string) => text(about, isOptional);
const delaySeconds = { min: 0, max: limits.delaySecondsMax, isOptional: true } as const;

export const TaskReplay = object(
  {
    payload: raw("The payload of the new task.", isOptional),
    command: commandOf("The queue of the new task."),
    priority: whole("The priority of the new task.", {
      min: 0,
      max: limits.priorityMax,
      isOptional: true,
    }),
    maxAttempts: whole("Attempts of the new task before it is a dead letter.", {
      ...positive,
      max: limits.maxAttemptsMax,
    }),
    delaySeconds: decimal("Seconds before the new task may be claimed.", delaySeconds),
  },
  {
    about: "What is different in the new task; what is missing is as in the old one.",
    isClosed: true,
  },
);

const TaskEdit = object(
  {
    command: commandOf("The queue to move the task to."),
    priority: whole(
      `0 to ${limits.priorityMax}; the task goes to the back of its priority.`,
      isOptional,
    ),
    payload: raw("The new payload.", isOptional),
    runAt: text(
      "RFC 3339 time: when the task may be claimed. Takes precedence over delaySeconds.",
      isOptional,
    ),
    delaySeconds: decimal(
      "Seconds before the task may be claimed; 0 makes the task ready now.",
      delaySeconds,
    ),
  },
  { isClosed: true },
);

const grace = limits.cancelGraceSecondsDefault;
const Cancellation = object(
  {
    graceSeconds: whole(
      `Seconds that the worker of a running task gets to stop (default: ${grace}).`,
      { min: 0, max: limits.cancelGraceSecondsMax, none: grace },
    ),
  },
  { isClosed: true },
);

const params = { id: text("The id of the task.") };
const waitMax = limits.resultWaitSecondsMax;
const asItIsNow = { about: "The task as it is now.", shape: ActedOnTask };

/** For producers and workers. */
export const tasks = endpoints({
  getTask: {
    key: "GET /tasks/:id",
    access: "either",
    summary: "Get a task",
    about:
      "In a cluster the leader of the task's shard answers. With `consistency=local` the node that is asked answers " +
      "by itself if it knows the task, which may be a moment behind.",
    params,
    query: {
      consistency: text("`local` to have the node answer that is asked; default: the leader.", {
        oneOf: ["local"],
        none: "",
        rule: "local, or leave it out",
      }),
    },
    refusals: ["not_found", "invalid_argument"],
    replies: {
      200: {
        about: "The task.",
        shape: TaskWithHistory,
        headers: {
          "Codeq-Applied-Index":
            "With `consistency=local`: how many records of the shard the node had applied. It grows with every change.",
        },
      },
    },
  },
  getTaskByKey: {
    key: "GET /tasks/by-key/:key",
    access: "either",
    summary: "Get the task of an idempotency key",
    about:
      "The answer is 410 when the task has ended and was deleted, with its id, its status and the time of its end, " +
      "as long as the server keeps the key (setting `idempotencySeconds`).",
    params: { key: text("The idempotency key of the task.") },
    refusals: ["not_found", "task_deleted"],
    replies: { 200: { about: "The task.", shape: TaskWithHistory } },
  },
  getResult: {
    key: "GET /tasks/:id/result",
    access: "either",
    summary: "Get the result of a task",
    params,
    query: {
      waitSeconds: decimal(
        `Seconds to wait for the result; values above ${waitMax} mean ${waitMax}.`,
        { none: 0 },
      ),
    },
    refusals: ["task_not_found", "result_not_found"],
    replies: {
      200: {
        about: "The result and its task.",
        shape: object({ result: Result, task: TaskWithHistory }, { name: "TaskWithResult" }),
      },
    },
  },
  cancelTask: {
    key: "POST /tasks/:id/cancel",
    access: "producer",
    scope: "codeq:create",
    summary: "Cancel a task",
    about:
      "A waiting task ends as FAILED with CANCELLED. The worker of a running task is notified, and loses " +
      "the task after the grace period.",
    params,
    body: Cancellation,
    bodyOptional: true,
    refusals: ["invalid_argument", "not_found", "has_ended", "event_type_not_allowed"],
    replies: { 200: asItIsNow },
  },
});

const anyParams = {
  id: text("The id of the task, or the beginning or end of it if that is unique."),
};
const ofOneTask = ["not_found", "ambiguous_id"] as const;
const ofChanges = ["invalid_argument", "invalid_command", "payload_too_large"] as const;

/** For administrators. */
export const taskAdmin = endpoints({
  listTasks: {
    key: "GET /admin/tasks",
    access: "viewer",
    summary: "Find tasks",
    about:
      "The work per page is limited: a page can have fewer tasks than requested, or none, and still have " +
      "a `next`.",
    query: {
      ...taskFilter,
      ...pageQuery(/^[0-9a-f-]{36}$/),
      order: text("`newest` or `oldest` first.", {
        oneOf: ["newest", "oldest"],
        none: "newest",
        refusal: "invalid 'order': it must be newest or oldest",
      }),
    },
    refusals: ["payloads_hidden"],
    replies: { 200: { about: "A page of tasks.", shape: FoundTasks } },
  },
  inspectTask: {
    key: "GET /admin/tasks/:id",
    access: "viewer",
    summary: "Show a task with its payload and result",
    params: anyParams,
    refusals: ofOneTask,
    replies: { 200: { about: "The task.", shape: InspectedTask } },
  },
  replayTask: {
    key: "POST /admin/tasks/:id/replay",
    access: "admin",
    summary: "Give a dead letter or a failed task back to its queue, or make a new task of it",
    about:
      "Without a body the task keeps its id and gets all its attempts again. With changes, a new task " +
      "is made of any task that has ended, and both name each other: `replayOf` and `replayedAs`.",
    params: anyParams,
    body: TaskReplay,
    bodyOptional: true,
    refusals: [
      ...ofChanges,
      ...ofOneTask,
      "not_failed",
      "not_ended",
      "unique_key_held",
      "priority_not_allowed",
      "quota_exceeded",
    ],
    replies: { 200: { about: "The task as it is now, or the new one.", shape: ActedOnTask } },
  },
  cancelAnyTask: {
    key: "POST /admin/tasks/:id/cancel",
    access: "admin",
    summary: "Cancel a task of any producer",
    params: anyParams,
    body: Cancellation,
    bodyOptional: true,
    refusals: ["invalid_argument", ...ofOneTask, "has_ended"],
    replies: { 200: asItIsNow },
  },
  editTask: {
    key: "PATCH /admin/tasks/:id",
    access: "admin",
    summary: "Edit a waiting task",
    about:
      "Moves the task to another queue, or changes its priority, payload or start time; `delaySeconds` of " +
      "0 makes the task ready now. The task keeps its id, its attempts and its idempotency key.",
    params: anyParams,
    body: TaskEdit,
    refusals: [
      ...ofChanges,
      ...ofOneTask,
      "not_waiting",
      "unique_key_held",
      "priority_not_allowed",
    ],
    replies: { 200: asItIsNow },
  },
  deleteTask: {
    key: "DELETE /admin/tasks/:id",
    access: "admin",
    summary: "Delete a task that has ended",
    params: anyParams,
    refusals: [...ofOneTask, "not_ended", "batch_unfinished"],
    replies: { 204: { about: "It is gone." } },
  },
});
