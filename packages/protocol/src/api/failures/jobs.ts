/** Bulk jobs: what is done to all tasks that match a filter, at a limited rate. */

import { endpoints } from "../../contract/endpoint.ts";
import { count, flag, instant, list, mapOf, object, text, whole } from "../../contract/shape.ts";
import { limits } from "../../limits.ts";
import { bodyFilter } from "../tasks/task-filter.ts";

const actions = ["replay", "delete", "cancel", "move"] as const;
/** A backfill is begun with its schedule. */
const shownActions = [...actions, "backfill"] as const;
const range = (min: number, max: number) => ({ min, max });

/** Unknown fields are refused: a condition that is passed over would hit what was not meant. */
const JobBody = object(
  {
    action: text("`replay`, `delete`, `cancel` or `move`.", { oneOf: actions, isRequired: true }),
    all: flag("Every task that the action is for; without it a filter is required.", {
      as: "isAll",
      none: false,
    }),
    place: text(
      "Where the tasks are (default: `failure`, dead letters and failed tasks; for `cancel` all that wait or run, for `move` all that wait).",
      { isOptional: true },
    ),
    ...bodyFilter,
    ratePerSecond: whole(`Tasks a second; ${limits.jobRateDefault} by default.`, {
      ...range(1, limits.jobRateMax),
      as: "perSecond",
      none: limits.jobRateDefault,
    }),
    graceSeconds: whole("For `cancel`: seconds that a worker gets to stop.", {
      ...range(0, limits.cancelGraceSecondsMax),
      isOptional: true,
    }),
    moveTo: text("For `move`: the queue to move the tasks to.", { isOptional: true }),
    dryRun: flag("Only count the tasks; change nothing.", { as: "isDryRun", none: false }),
    after: text("For a dry run: `next` of the answer before, to count on.", { isOptional: true }),
    canary: flag("For `replay`: few tasks first, and more while enough of them succeed.", {
      as: "isCanary",
      none: false,
    }),
    canaryFirst: whole("How many tasks the first stage replays; 10 by default.", {
      ...range(1, 1000),
      none: 10,
    }),
    canaryFactor: whole("How much larger each stage is; 2 by default.", {
      ...range(1, 100),
      none: 2,
    }),
    canaryFailurePercent: whole("The job stops when more of a stage fail again; 20 by default.", {
      ...range(0, 100),
      none: 20,
    }),
  },
  { isClosed: true },
);

const stage = object(
  { size: count(), waiting: count(), succeeded: count(), failedAgain: count() },
  { about: "The stage whose outcome is waited for.", isOptional: true },
);

export const Job = object(
  {
    id: text(),
    action: text("", { oneOf: shownActions }),
    moveTo: text("The queue that the tasks are moved to.", { isOptional: true }),
    filter: mapOf(text(), "Which tasks, as it was asked for.", { as: "asked" }),
    state: text("`stopped` is a canary that met too many failures.", {
      oneOf: ["running", "paused", "done", "aborted", "stopped"],
    }),
    reason: text("Why it is paused or has ended before its time.", { none: "" }),
    by: text("Who began it."),
    createdAt: instant(),
    updatedAt: instant(),
    ratePerSecond: count("", { as: "perSecond" }),
    total: count("Tasks that match; left out until they are counted.", { isOptional: true }),
    matched: count("Tasks found so far."),
    changed: count("Tasks changed so far."),
    failed: count("Tasks that could not be changed."),
    etaSeconds: count(
      "About how long until the job ends, at its rate so far; left out for a canary, which waits for outcomes.",
      { isOptional: true },
    ),
    failures: list(
      object({ id: text(), code: text() }),
      "The first tasks that could not be changed, with the reason.",
    ),
    canary: object(
      { first: count(), factor: count(), failurePercent: count(), stage },
      { isOptional: true },
    ),
  },
  { name: "Job", about: "A bulk job as it is now." },
);

export const DryRun = object(
  {
    matched: count("How many tasks match now."),
    hasMore: flag("Not all tasks were looked at; `matched` is of those that were."),
    next: text("Where to count on; the counts of all answers add up.", { isOptional: true }),
  },
  { name: "JobDryRun" },
);

const params = { id: text("The id of the job.") };
const asItIs = { 200: { about: "The job as it is now.", shape: Job } } as const;
const change = {
  access: "admin",
  params,
  refusals: ["job_not_found", "job_has_ended"],
  replies: asItIs,
} as const;

export const jobs = endpoints({
  createJob: {
    key: "POST /admin/jobs",
    access: "admin",
    summary: "Replay, delete, cancel or move all tasks that match",
    about:
      "A job goes through the tasks that match, the oldest first, at a limited rate. It survives restarts and " +
      "changes no task twice. With `canary` it replays a few tasks, waits for their outcome, goes on with more, and " +
      "stops by itself when too many fail again.",
    body: JobBody,
    refusals: [
      "invalid_command",
      "invalid_argument",
      "payloads_hidden",
      "too_many_jobs",
      "overloaded",
    ],
    replies: {
      200: { about: "A dry run: how many match.", shape: DryRun },
      201: { about: "The job has begun.", shape: Job },
    },
  },
  listJobs: {
    key: "GET /admin/jobs",
    access: "viewer",
    summary: "List bulk jobs",
    replies: {
      200: { about: "The newest first.", shape: object({ jobs: list(Job) }, { name: "Jobs" }) },
    },
  },
  getJob: {
    key: "GET /admin/jobs/:id",
    access: "viewer",
    summary: "Show a bulk job",
    params,
    refusals: ["job_not_found"],
    replies: asItIs,
  },
  pauseJob: { ...change, key: "POST /admin/jobs/:id/pause", summary: "Pause a bulk job" },
  resumeJob: {
    ...change,
    key: "POST /admin/jobs/:id/resume",
    summary: "Let a paused bulk job go on",
  },
  abortJob: {
    ...change,
    key: "POST /admin/jobs/:id/abort",
    summary: "End a bulk job; what it has done stays done",
  },
});
