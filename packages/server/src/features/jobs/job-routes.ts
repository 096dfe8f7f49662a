/** Routes for bulk jobs. */

import { JobBody } from "../../edge/http/bodies.ts";
import type { BodyOf } from "../../edge/http/json-body.ts";
import type { JsonCodec } from "../../edge/http/json-codec.ts";
import { json, route } from "../../edge/http/route.ts";
import { type FilterInput, filterNames } from "../../edge/task-filter-input.ts";
import type { BulkJob } from "./job-record.ts";
import {
  abortJob,
  type CreateJobInput,
  createJob,
  getJob,
  listJobs,
  pauseJob,
  resumeJob,
} from "./manage-jobs.ts";

const base = "/v1/codeq/admin/jobs";
const idParam = { id: "The id of the job." };

export const jobRoutes = [
  route({
    method: "POST",
    path: base,
    operation: createJob,
    name: "createJob",
    summary: "Replay, delete, cancel or move all tasks that match",
    about:
      "A job goes through the tasks that match, the oldest first, at a limited rate. It survives restarts and " +
      "changes no task twice. With `canary` it replays a few tasks, waits for their outcome, goes on with more, and " +
      "stops by itself when too many fail again.",
    refusals: [
      "invalid_command",
      "invalid_argument",
      "payloads_hidden",
      "too_many_jobs",
      "overloaded",
    ],
    replies: {
      200: { about: "A dry run: how many match.", schema: "JobDryRun" },
      201: { about: "The job has begun.", schema: "Job" },
    },
    body: JobBody,
    input: ({ body }) => ({ ok: true, value: inputOf(body as BodyOf<typeof JobBody>) }),
    reply: (created, codec) =>
      "job" in created
        ? json(JSON.stringify(jobFields(created.job, codec)), 201)
        : json(JSON.stringify(created)),
  }),
  route({
    method: "GET",
    path: base,
    operation: listJobs,
    name: "listJobs",
    summary: "List bulk jobs",
    replies: { 200: { about: "The newest first.", schema: "Jobs" } },
    input: () => ({ ok: true, value: undefined }),
    reply: (jobs, codec) =>
      json(JSON.stringify({ jobs: jobs.map((job) => jobFields(job, codec)) })),
  }),
  route({
    method: "GET",
    path: `${base}/:id`,
    operation: getJob,
    name: "getJob",
    summary: "Show a bulk job",
    params: idParam,
    refusals: ["job_not_found"],
    replies: { 200: { about: "The job as it is now.", schema: "Job" } },
    input: ({ params }) => ({ ok: true, value: { id: params["id"] ?? "" } }),
    reply: (job, codec) => json(JSON.stringify(jobFields(job, codec))),
  }),
  change("pause", pauseJob, "Pause a bulk job"),
  change("resume", resumeJob, "Let a paused bulk job go on"),
  change("abort", abortJob, "End a bulk job; what it has done stays done"),
] as const;

function change(verb: "pause" | "resume" | "abort", operation: typeof pauseJob, summary: string) {
  return route({
    method: "POST",
    path: `${base}/:id/${verb}`,
    operation,
    name: `${verb}Job`,
    summary,
    params: idParam,
    refusals: ["job_not_found", "job_has_ended"],
    replies: { 200: { about: "The job as it is now.", schema: "Job" } },
    input: ({ params }) => ({ ok: true, value: { id: params["id"] ?? "" } }),
    reply: (job, codec) => json(JSON.stringify(jobFields(job, codec))),
  });
}

function inputOf(body: BodyOf<typeof JobBody>): CreateJobInput {
  const given = body as Readonly<Record<string, unknown>>;
  const texts = filterNames.flatMap((name) => {
    const value = given[name];
    return value === undefined || value === null ? [] : [[name, String(value)] as const];
  });
  const { canary, canaryFirst, canaryFactor, canaryFailurePercent } = body;
  return {
    action: body.action,
    filter: Object.fromEntries(texts) as FilterInput,
    isAll: body.all ?? false,
    ratePerSecond: body.ratePerSecond,
    graceSeconds: body.graceSeconds,
    moveTo: body.moveTo,
    isDryRun: body.dryRun ?? false,
    canary:
      canary === true
        ? { first: canaryFirst, factor: canaryFactor, failurePercentMax: canaryFailurePercent }
        : undefined,
  };
}

function jobFields(job: BulkJob, codec: JsonCodec): object {
  const { canary, piece } = job;
  const stage =
    piece?.isActedOn === true
      ? {
          size: piece.size,
          waiting: piece.ids.length,
          succeeded: piece.succeeded,
          failedAgain: piece.failedAgain,
        }
      : undefined;
  return {
    id: job.id,
    action: job.action.kind,
    moveTo: job.action.kind === "move" ? job.action.command : undefined,
    filter: job.asked,
    state: job.state,
    reason: job.reason === "" ? undefined : job.reason,
    by: job.by,
    createdAt: codec.instant(job.createdMs),
    updatedAt: codec.instant(job.updatedMs),
    ratePerSecond: job.perSecond,
    matched: job.matched,
    changed: job.changed,
    failed: job.failed,
    failures: job.failures,
    canary:
      canary === undefined
        ? undefined
        : {
            first: canary.first,
            factor: canary.factor,
            failurePercent: canary.failurePercentMax,
            stage,
          },
  };
}
