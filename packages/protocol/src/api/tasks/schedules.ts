/** Schedules: tasks that the server creates again and again, each nominal instant exactly once. */

import { endpoints, type OutOfBounds, pageOf, pageQuery } from "../../contract/endpoint.ts";
import {
  count,
  flag,
  instant,
  like,
  list,
  object,
  raw,
  text,
  whole,
} from "../../contract/shape.ts";
import { limits } from "../../limits.ts";
import { DryRun, Job } from "../failures/jobs.ts";
import { Unique } from "./work.ts";

const isOptional = { isOptional: true } as const;
const range = (min: number, max: number) => ({ min, max });
const duration = {
  max: 32,
  none: "",
  rule: 'a length of time such as "30s", "15m" or "1h"',
} as const;

/** When a schedule fires. */
const specFields = {
  cron: text(
    "Five fields (minute, hour, day, month, weekday), or six with seconds in front; or `@daily` and the like.",
    { max: limits.cronCharsMax, isLine: true, none: "" },
  ),
  every: text(
    "Instead of `cron`: elapsed time such as `15m`, counted from 1970-01-01T00:00Z.",
    duration,
  ),
  offset: text("With `every`: how much later, such as `5m`.", duration),
  tz: text("The IANA time zone of `cron` and `except`, such as `Europe/Paris`.", {
    max: 64,
    isLine: true,
    none: "UTC",
  }),
  from: instant("Nothing fires before.", isOptional),
  until: instant("Nothing fires after.", isOptional),
  except: list(
    text("", { max: limits.cronCharsMax, isLine: true }),
    "Local dates such as `2026-12-25`, and cron expressions of local times, at which nothing fires.",
    { max: limits.scheduleExceptMax, none: [] },
  ),
};

const overlaps = ["allow", "skip", "one", "replace"] as const;
const catchUps = ["none", "latest", "all"] as const;

/** What a schedule does when it fires. */
const policyFields = {
  times: whole("Tasks to create in all; 0 for any number.", {
    ...range(0, 1_000_000_000),
    none: 0,
  }),
  overlap: text(
    "While a task of the schedule has not ended: `skip` creates none, `one` lets one wait, `replace` cancels " +
      "the running one, and `allow` creates another.",
    { oneOf: overlaps, none: "skip" },
  ),
  graceSeconds: whole("With `replace`: seconds that the worker of a cancelled task gets to stop.", {
    ...range(0, limits.cancelGraceSecondsMax),
    none: limits.cancelGraceSecondsDefault,
  }),
  catchUp: text(
    "After down time: `latest` creates the last task that was missed, `all` every one (at most 1,000), `none` no " +
      "task that is more than a minute late.",
    { oneOf: catchUps, none: "latest" },
  ),
  within: text("How late a task may be created; by default 1h for `latest`.", duration),
  spread: text(
    "Tasks are created up to so much later, always the same for the same schedule.",
    duration,
  ),
  pauseAfterFailures: whole("Pause after so many failed tasks in a row; 0 for never.", {
    ...range(0, 1000),
    none: 0,
  }),
};

/** The task that is created. */
export const templateFields = {
  command: text("The name of the work.", {
    pattern: limits.commandPattern,
    isFilled: true,
    refusal: "invalid command",
  }),
  payload: raw("Any JSON value; `{}` by default.", { none: "{}" }),
  priority: whole("From 0 to 9; the highest is delivered first.", {
    ...range(0, limits.priorityMax),
    none: 0,
  }),
  webhook: text("The URL that gets the results.", { max: limits.webhookCharsMax, none: "" }),
  maxAttempts: whole("Attempts before a task becomes a dead letter; 0 for what the queue says.", {
    ...range(0, limits.maxAttemptsMax),
    none: 0,
  }),
  timeoutSeconds: whole("How long an attempt may take; 0 for any time.", {
    ...range(0, limits.timeoutSecondsMax),
    none: 0,
  }),
  ttlSeconds: whole("How long a task may wait for a worker; 0 for any time.", {
    ...range(0, limits.ttlSecondsMax),
    none: 0,
  }),
  tags: list(text("", { pattern: limits.tagPattern }), "Short labels of the tasks.", {
    max: limits.tagsMax,
    isUnique: true,
    none: [],
    rule: `at most ${limits.tagsMax}, each 1 to 64 characters without spaces and commas`,
  }),
};

/** Which other tasks of the queue the tasks meet. */
const sharedFields = {
  unique: like(
    Unique,
    "One task at a time for a key of the queue. An instant whose task another task stands in for is skipped.",
    isOptional,
  ),
  lane: text("Limits, rates and fair shares apply to the tasks of the queue with the same lane.", {
    max: limits.laneBytesMax,
    isLine: true,
    none: "",
  }),
  cost: whole("Units of rates and fair shares that each task takes; 0 for 1.", {
    ...range(0, limits.laneUnitsMax),
    none: 0,
  }),
};

/** Unknown fields are refused: a schedule that is not what was meant must not run for years. */
export const ScheduleBody = object(
  { ...templateFields, ...sharedFields, ...specFields, ...policyFields },
  { name: "ScheduleOptions", about: "A schedule as it is put.", isClosed: true },
);

const skipReasons = [
  "late",
  "superseded",
  "overlap",
  "replaced",
  "paused",
  "quota",
  "unique",
] as const;
const skipped = object(
  Object.fromEntries(skipReasons.map((why) => [why, count()])) as Readonly<
    Record<(typeof skipReasons)[number], ReturnType<typeof count>>
  >,
  { about: "Nominal instants that became no task, by the reason." },
);

const pause = object(
  { by: text(), reason: text("", { none: "" }), at: instant() },
  { about: "Who paused it, and why; `server` after too many failures.", ...isOptional },
);

export const Schedule = object(
  {
    id: text(),
    ...ScheduleBody.fields,
    version: count("Grows with every change of what was put."),
    createdAt: instant(),
    updatedAt: instant(),
    nextAt: instant("The next nominal instant; missing when there is none.", isOptional),
    delayMs: count(
      "How long after each nominal instant its task is created, because of `spread`.",
      {
        none: 0,
      },
    ),
    lastAt: instant("The last nominal instant that became a task.", isOptional),
    waitingAt: instant("The nominal instant that waits for the running task to end.", isOptional),
    handledAt: instant("Every nominal instant up to here was fired or skipped."),
    fired: count("Tasks created at nominal instants."),
    skipped,
    live: count("Tasks of the schedule that have not ended."),
    failures: count("Failed tasks in a row.", { none: 0 }),
    paused: pause,
  },
  { name: "Schedule", about: "A schedule as it is now." },
);

const params = {
  id: text("The id of the schedule.", {
    pattern: limits.schedulePattern,
    rule: "1 to 128 letters, digits, dashes, dots, colons and underscores",
  }),
};

const outOfBounds: OutOfBounds = {
  code: "invalid_schedule",
  say: (field, rule) => `invalid '${field}' (${rule})`,
  namesField: true,
};

const ScheduleRun = object(
  {
    at: instant("The nominal instant; the first of several for skips."),
    until: instant("The last of several skips.", isOptional),
    taskId: text("The task; missing for skips.", isOptional),
    status: text("The task's status.", isOptional),
    createdAt: instant("When the task was created.", isOptional),
    kind: text("`fired` at its time, `manual` by run now, `backfill`, or `skipped`.", {
      oneOf: ["fired", "manual", "backfill", "skipped"],
    }),
    why: text("Why it was skipped.", { oneOf: skipReasons, isOptional: true }),
    count: count("How many instants; 1 for a task."),
  },
  { name: "ScheduleRun", about: "A task of a schedule, or nominal instants that were skipped." },
);

const PlannedRun = object(
  {
    at: instant(),
    local: text("The local time in the zone of the schedule, such as `2026-03-29 03:00`."),
    offset: text("The offset from UTC there and then, such as `+02:00`."),
    note: text("What is special about this one: a gap or a repeated hour.", isOptional),
  },
  { name: "PlannedRun" },
);

const ScheduleExplanation = object(
  {
    scheduleId: text(),
    at: instant("The instant that was asked about."),
    nominalAt: instant("The nominal instant that is meant.", isOptional),
    outcome: text("The outcome.", {
      oneOf: ["fired", "skipped", "waiting", "planned", "due", "paused", "not_nominal", "unknown"],
    }),
    why: text("Why it was skipped.", { oneOf: skipReasons, isOptional: true }),
    taskId: text("", isOptional),
    text: text("The same in a sentence."),
  },
  { name: "ScheduleExplanation" },
);

const change = {
  access: "admin",
  params,
  refusals: ["schedule_not_found"],
  replies: { 200: { about: "The schedule as it is now.", shape: Schedule } },
} as const;

export const schedules = endpoints({
  putSchedule: {
    key: "PUT /admin/schedules/:id",
    access: "admin",
    summary: "Create a schedule or change it",
    about:
      "The same request again changes nothing. Another task is used from the next firing on. Another spec counts " +
      "from now: nothing of the past is fired.",
    params,
    query: {
      ifVersion: whole(
        "Refused unless the schedule has this version; 0 for a new schedule. The header `If-Match` does the same.",
        { min: 0, isOptional: true },
      ),
    },
    outOfBounds,
    body: ScheduleBody,
    refusals: [
      "invalid_schedule",
      "invalid_command",
      "payload_too_large",
      "too_many_schedules",
      "placement_conflict",
      "version_mismatch",
    ],
    replies: {
      200: { about: "The schedule was there.", shape: Schedule },
      201: { about: "The schedule is new.", shape: Schedule },
    },
  },
  getSchedule: {
    key: "GET /admin/schedules/:id",
    access: "viewer",
    summary: "Get a schedule",
    params,
    refusals: ["schedule_not_found"],
    replies: { 200: { about: "The schedule.", shape: Schedule } },
  },
  listSchedules: {
    key: "GET /admin/schedules",
    access: "viewer",
    summary: "List schedules",
    query: {
      ...pageQuery(limits.schedulePattern),
      prefix: text("Only ids that begin like this.", { max: 128, none: "" }),
    },
    replies: {
      200: {
        about: "In the order of their ids.",
        shape: pageOf("Schedules", "schedules", Schedule),
      },
    },
  },
  deleteSchedule: {
    key: "DELETE /admin/schedules/:id",
    access: "admin",
    summary: "Delete a schedule",
    about: "Its tasks stay.",
    params,
    refusals: ["schedule_not_found"],
    replies: { 204: { about: "Nothing more is fired." } },
  },
  pauseSchedule: {
    ...change,
    key: "POST /admin/schedules/:id/pause",
    summary: "Pause a schedule",
    about: "What would be fired until it is resumed is skipped and counted.",
    body: object({
      reason: text("Why, for those who see it.", { max: limits.reasonCharsMax, none: "" }),
    }),
    bodyOptional: true,
  },
  resumeSchedule: {
    ...change,
    key: "POST /admin/schedules/:id/resume",
    summary: "Resume a schedule",
  },
  runSchedule: {
    key: "POST /admin/schedules/:id/run",
    access: "admin",
    summary: "Create a task of a schedule now",
    about: "The plan does not change. Refused while a task is live, unless `overlap` is `allow`.",
    params,
    refusals: ["schedule_not_found", "schedule_busy", "quota_exceeded"],
    replies: {
      201: {
        about: "The task was created.",
        shape: object({ taskId: text() }, { name: "RanSchedule" }),
      },
    },
  },
  backfillSchedule: {
    key: "POST /admin/schedules/:id/backfill",
    access: "admin",
    summary: "Create tasks for nominal instants of the past",
    about:
      "A bulk job creates a task for each nominal instant of the span that has none, the oldest first. The tasks do " +
      "not count for `overlap`.",
    params,
    body: object(
      {
        from: instant("The first instant.", { isRequired: true }),
        until: instant("The last instant; not in the future.", { isRequired: true }),
        ratePerSecond: whole(`Tasks a second; ${limits.jobRateDefault} by default.`, {
          ...range(1, limits.jobRateMax),
          as: "perSecond",
          none: limits.jobRateDefault,
        }),
        dryRun: flag("Only count the instants; create nothing.", { as: "isDryRun", none: false }),
      },
      { isClosed: true },
    ),
    refusals: ["schedule_not_found", "too_many_jobs"],
    replies: {
      200: { about: "A dry run: how many tasks there would be.", shape: DryRun },
      201: { about: "The job has begun.", shape: Job },
    },
  },
  listScheduleRuns: {
    key: "GET /admin/schedules/:id/runs",
    access: "viewer",
    summary: "List what a schedule did",
    about:
      "Tasks as long as they are kept, and the last skips with their reasons, the newest first.",
    params,
    query: { limit: pageQuery(/^$/).limit },
    refusals: ["schedule_not_found"],
    replies: {
      200: {
        about: "The newest first.",
        shape: object({ runs: list(ScheduleRun) }, { name: "ScheduleRuns" }),
      },
    },
  },
  explainSchedule: {
    key: "GET /admin/schedules/:id/explain",
    access: "viewer",
    summary: "Explain why a schedule did or did not run",
    params,
    query: {
      at: text(
        "An instant (`2026-03-29T01:00:00Z`), or a local time of the schedule's zone (`2026-03-29T02:30`).",
        { max: 40, rule: "an instant, or a local time such as 2026-03-29T02:30" },
      ),
    },
    refusals: ["schedule_not_found"],
    replies: { 200: { about: "The outcome.", shape: ScheduleExplanation } },
  },
  previewSchedule: {
    key: "POST /admin/schedules/preview",
    access: "viewer",
    summary: "Show when a spec would fire",
    outOfBounds,
    body: object(
      {
        ...specFields,
        count: whole("How many.", { ...range(1, 1000), none: 10 }),
        after: instant("Behind this instant; now by default.", isOptional),
      },
      { isClosed: true },
    ),
    refusals: ["invalid_schedule"],
    replies: {
      200: {
        about: "The next nominal instants.",
        shape: object(
          {
            runs: list(PlannedRun),
            hasMore: flag("Whether more follow."),
          },
          { name: "SchedulePreview" },
        ),
      },
    },
  },
});

export { PlannedRun, ScheduleExplanation, ScheduleRun };
