/** Queues: counts, rates and history, pauses, the clean-up of finished tasks, and the settings of the server. */

import { endpoints } from "../../contract/endpoint.ts";
import {
  count,
  decimal,
  either,
  flag,
  instant,
  like,
  list,
  mapOf,
  object,
  only,
  text,
  whole,
} from "../../contract/shape.ts";
import { limits } from "../../limits.ts";

const places = { ready: count(), delayed: count(), inProgress: count(), dlq: count() };
const failed = count("Tasks that failed without a retry, until their retention ends.");
const positive = { min: 0 } as const;

const TaskFlow = object(
  {
    enqueued: decimal("Created or replayed.", positive),
    completed: decimal("", positive),
    failed: decimal(
      "Failed without a retry, or dead letters; a cancelled task is no failure.",
      positive,
    ),
    retried: decimal("Attempts that failed and are retried.", positive),
  },
  { about: "What happened to tasks, in tasks a second or as a number of tasks." },
);

const pauseFields = {
  by: text("Who paused it."),
  at: instant("When.", { as: "atMs" }),
  reason: text("", { none: "" }),
};
export const paused = object(pauseFields, {
  about: "Who paused the queue, when and why.",
  isOptional: true,
});
export const PausedQueue = object(
  { command: text("The name of the queue, in lower case.", { as: "queue" }), ...pauseFields },
  { name: "Pause", about: "A queue that is paused." },
);

const isPartial = only(true, "A shard is down, and its tasks are missing.", { isOptional: true });

const stats = {
  ...places,
  failed,
  rates: like(TaskFlow, "Tasks a second, over the last minute."),
  oldestSeconds: decimal("How long ago the oldest ready task was created.", { isOptional: true }),
  drainSeconds: decimal(
    "How long the ready tasks take at the present rate; only while tasks end.",
    { isOptional: true },
  ),
};

const QueueCounts = object(
  {
    command: text(),
    ...places,
    failed,
    paused,
    topic: object(
      {
        version: count(),
        maxConsumers: count("How many tasks may be leased.", { isOptional: true }),
        isAtLimit: flag("So many are leased that claims get nothing.", { isOptional: true }),
      },
      { about: "The topic of the queue.", isOptional: true },
    ),
    isPartial,
  },
  { name: "QueueCounts" },
);

const QueueBuckets = mapOf(
  whole("", { min: 1 }),
  "Tasks by bucket, such as `codeq:q:render:acme:pending:0`; only buckets that hold tasks.",
  { name: "QueueBuckets" },
);

export const QueueDetails = object(
  {
    command: text("The name of the queue, in lower case."),
    ...stats,
    paused,
    inProgressMax: count("The limit of leases that its topic has.", { isOptional: true }),
    workersAsking: count("Workers whose claims wait for tasks of the queue."),
  },
  { about: "One queue." },
);

export const QueueOverview = object(
  { queues: list(QueueDetails), totals: object({ ...stats, queues: count() }) },
  { name: "QueueDetails", about: "All queues of a tenant." },
);

const resolutions = ["minute", "hour"] as const;

export const Series = object(
  {
    command: text("", { isOptional: true }),
    resolution: text("", { oneOf: resolutions }),
    points: list(
      object({
        at: instant("", { as: "atMs" }),
        ...TaskFlow.fields,
        ...places,
        oldestSeconds: decimal("", { isOptional: true }),
        waitP50Seconds: decimal(
          "The median of the time from ready to claimed, within a fifth, of the tasks that were claimed.",
          { isOptional: true },
        ),
        waitP99Seconds: decimal("Its 99th percentile.", { isOptional: true }),
        runP50Seconds: decimal(
          "The median of the time that attempts took, within a fifth, of the attempts that ended.",
          { isOptional: true },
        ),
        runP99Seconds: decimal("Its 99th percentile.", { isOptional: true }),
      }),
    ),
    usual: list(object({ hour: whole("", { min: 0, max: 23 }), ...TaskFlow.fields })),
  },
  { name: "Series", about: "What happened in a queue, or in all queues of a tenant." },
);

export const Trends = object(
  {
    from: instant("When the first minute began."),
    queues: list(
      object({
        command: text(),
        enqueued: list(count()),
        completed: list(count()),
        failed: list(count()),
        retried: list(count()),
      }),
    ),
  },
  {
    name: "Trends",
    about: "What happened in several queues in each of the last whole minutes.",
  },
);

export const Setting = object(
  {
    key: text(),
    value: text(),
    source: text("`default`, or the file, variable or flag that sets it."),
  },
  { about: "A setting of the server; secrets have no value here." },
);

const queueName = {
  pattern: limits.commandPattern,
  code: "invalid_command",
  refusal: "invalid command",
} as const;
const about = "The command of the queue; letter case is ignored.";
const params = { command: text(about, queueName) };
const series = {
  access: "viewer",
  operation: "get_series",
  about:
    "A point is what happened within a minute or an hour, and how many tasks were where at its end. Minutes and " +
    "hours in which no task moved are left out: all is as at the point before. `usual` has the median of each hour of the day, in UTC.",
  query: {
    resolution: text("`minute` for the last 24 hours, the default; `hour` for the last 7 days.", {
      oneOf: resolutions,
      isOptional: true,
    }),
    last: whole("Only so many of the latest minutes or hours, and without `usual`.", {
      min: 1,
      isOptional: true,
    }),
  },
  replies: { 200: { about: "Points in their order.", shape: Series } },
} as const;

export const queues = endpoints({
  listQueues: {
    key: "GET /admin/queues",
    access: "viewer",
    summary: "Count the tasks of all queues",
    query: {
      view: text(
        "`buckets` for a flat map of counts, the default; `details` for counts by place, rates, ages and pauses.",
        { oneOf: ["buckets", "details"], isOptional: true },
      ),
    },
    replies: {
      200: {
        about: "Counts by bucket, or details by queue.",
        shape: either([QueueBuckets, QueueOverview], "", { name: "Queues" }),
        headers: { "Codeq-Partial": "`true` when a shard is down and its tasks are not counted." },
      },
    },
  },
  getQueueSeries: {
    ...series,
    key: "GET /admin/queues/:command/series",
    summary: "Show what happened in a queue",
    params,
    refusals: ["invalid_command"],
  },
  getSeries: {
    ...series,
    key: "GET /admin/series",
    summary: "Show what happened in all queues together",
  },
  getTrends: {
    key: "GET /admin/trends",
    access: "viewer",
    summary: "Show what happened in several queues in the last minutes",
    about:
      "Each queue has one number per whole minute, 0 for a minute in which nothing happened. One request instead of one `series` per queue.",
    query: {
      queues: text(
        `The commands of the queues, separated by commas; letter case is ignored. At most ${limits.trendQueuesMax}.`,
        { none: "" },
      ),
      last: whole("The number of minutes (default: 30).", {
        min: 1,
        max: limits.trendMinutesMax,
        none: 30,
      }),
    },
    refusals: ["invalid_command"],
    replies: { 200: { about: "The queues in the order of the request.", shape: Trends } },
  },
  getQueue: {
    key: "GET /admin/queues/:command",
    access: "viewer",
    summary: "Count the tasks of a queue",
    // Any name has an answer, with zeros.
    params: { command: text(about) },
    replies: {
      200: { about: "Counts by place; zeros for a queue without tasks.", shape: QueueCounts },
    },
  },
  pauseQueue: {
    key: "POST /admin/queues/:command/pause",
    access: "admin",
    summary: "Pause a queue",
    about: "No task of the queue is handed out until it is resumed; tasks can still be created.",
    params,
    body: object(
      {
        reason: text(
          `The reason, shown with the queue; at most ${limits.reasonCharsMax} characters.`,
          {
            max: limits.reasonCharsMax,
            none: "",
            refusal: `'reason' is longer than ${limits.reasonCharsMax}`,
          },
        ),
      },
      { isClosed: true },
    ),
    bodyOptional: true,
    refusals: ["invalid_command", "too_many_pauses"],
    replies: { 200: { about: "Who paused it, when and why.", shape: PausedQueue } },
  },
  resumeQueue: {
    key: "POST /admin/queues/:command/resume",
    access: "admin",
    summary: "Resume a queue",
    params,
    refusals: ["invalid_command"],
    replies: {
      200: {
        about: "It is not paused.",
        shape: object({ command: text(), paused: only(false) }, { name: "Resumed" }),
      },
    },
  },
  listPauses: {
    key: "GET /admin/pauses",
    access: "viewer",
    summary: "List paused queues",
    replies: {
      200: {
        about: "All queues that are paused.",
        shape: object({ pauses: list(PausedQueue) }, { name: "Pauses" }),
      },
    },
  },
  cleanUp: {
    key: "POST /admin/tasks/cleanup",
    access: "admin",
    summary: "Delete finished tasks before their retention ends",
    body: object({
      limit: whole(
        `Maximum number of tasks to delete; 0 or less means ${limits.cleanupLimitDefault}.`,
        { max: limits.cleanupLimitMax, none: 0, rule: `must be <= ${limits.cleanupLimitMax}` },
      ),
      before: text(
        "RFC 3339 time: delete tasks whose retention ends before this time (default: now).",
        { none: "" },
      ),
    }),
    bodyOptional: true,
    replies: {
      200: {
        about: "How many were deleted.",
        shape: object(
          { before: instant(), deleted: count(), limit: whole() },
          { name: "CleanedUp" },
        ),
      },
    },
  },
  listSettings: {
    key: "GET /admin/settings",
    access: "operator",
    summary: "List the settings of the server",
    about: "What the server was started with. Secrets are not shown.",
    replies: {
      200: {
        about: "Every setting, with where it comes from.",
        shape: object({ settings: list(Setting) }, { name: "Settings" }),
      },
    },
  },
  listTenants: {
    key: "GET /admin/tenants",
    access: "operator",
    summary: "List tenants that have tasks",
    query: {
      after: text("The last name of the previous page; empty for the first page.", { none: "" }),
    },
    replies: {
      200: {
        about: "Names in order.",
        shape: object(
          {
            tenants: list(text()),
            hasMore: flag(),
            isPartial: only(true, "A shard is down, and its tasks are missing.", { none: false }),
          },
          { name: "Tenants" },
        ),
      },
    },
  },
});
