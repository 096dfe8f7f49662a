/**
 * Routes for administrators. Each call concerns one tenant: that of the caller, or the one that an operator
 * names in the query.
 */
import { limits } from "@codeq/protocol";
import type { PausedQueue, QueuePause } from "../../core/records/pause-record.ts";
import type { Topic } from "../../core/records/topic-record.ts";
import { CleanUpBody, PauseBody } from "../../edge/http/bodies.ts";
import type { BodyOf } from "../../edge/http/json-body.ts";
import { type JsonCodec, queueBuckets, queueStats } from "../../edge/http/json-codec.ts";
import { textField, wholeNumberField } from "../../edge/http/query.ts";
import { json, route } from "../../edge/http/route.ts";
import { cleanUp } from "./clean-up.ts";
import { getSeries } from "./get-series.ts";
import { getTrends } from "./get-trends.ts";
import { listSettings } from "./list-settings.ts";
import { listTenants } from "./list-tenants.ts";
import { listPauses, pauseQueue, resumeQueue } from "./pause-queue.ts";
import { getQueue, listQueues } from "./queue-counts.ts";
import { queueDetails, seriesText, trendsText } from "./queue-details.ts";

const base = "/v1/codeq/admin";
const seriesAbout =
  "A point is what happened within a minute or an hour, and how many tasks were where at its end. Minutes and " +
  "hours in which no task moved are left out: all is as at the point before. `usual` has the median of each hour of the day, in UTC.";
const resolution = {
  resolution: textField(
    "`minute` for the last 24 hours, the default; `hour` for the last 7 days.",
    {
      enum: ["minute", "hour"],
    },
  ),
};
const series = {
  ...resolution,
  last: wholeNumberField("Only so many of the latest minutes or hours, and without `usual`.", {
    minimum: 1,
  }),
};

function lastIn(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

const queueParam = { command: "The command of the queue; letter case is ignored." };

export const adminRoutes = [
  route({
    method: "GET",
    path: `${base}/queues`,
    operation: listQueues,
    name: "listQueues",
    summary: "Count the tasks of all queues",
    query: {
      view: textField(
        "`buckets` for a flat map of counts, the default; `details` for counts by place, rates, ages and pauses.",
        { enum: ["buckets", "details"] },
      ),
    },
    replies: {
      200: {
        about: "Counts by bucket, or details by queue.",
        schema: "Queues",
        headers: { "Codeq-Partial": "`true` when a shard is down and its tasks are not counted." },
      },
    },
    input: ({ query: { view = "buckets" } }) => ({ ok: true, value: { view } }),
    reply: (all, codec, { query }) => ({
      ...json(
        query["view"] === "details"
          ? queueDetails(all, (pause) => pauseFields(pause, codec))
          : queueBuckets(all.tenantId, all.queues),
      ),
      headers: all.isPartial ? { "Codeq-Partial": "true" } : {},
    }),
  }),
  route({
    method: "GET",
    path: `${base}/queues/:command/series`,
    operation: getSeries,
    name: "getQueueSeries",
    summary: "Show what happened in a queue",
    about: seriesAbout,
    params: queueParam,
    query: series,
    refusals: ["invalid_command"],
    replies: { 200: { about: "Points in their order.", schema: "Series" } },
    input: ({ params, query }) => ({
      ok: true,
      value: {
        command: params["command"],
        resolution: query["resolution"],
        last: lastIn(query["last"]),
      },
    }),
    reply: (series, codec, { params }) =>
      json(seriesText(series, { command: params["command"], instant: (ms) => codec.instant(ms) })),
  }),
  route({
    method: "GET",
    path: `${base}/series`,
    operation: getSeries,
    name: "getSeries",
    summary: "Show what happened in all queues together",
    about: seriesAbout,
    query: series,
    replies: { 200: { about: "Points in their order.", schema: "Series" } },
    input: ({ query }) => ({
      ok: true,
      value: {
        command: undefined,
        resolution: query["resolution"],
        last: lastIn(query["last"]),
      },
    }),
    reply: (series, codec) => json(seriesText(series, { instant: (ms) => codec.instant(ms) })),
  }),
  route({
    method: "GET",
    path: `${base}/trends`,
    operation: getTrends,
    name: "getTrends",
    summary: "Show what happened in several queues in the last minutes",
    about:
      "Each queue has one number per whole minute, 0 for a minute in which nothing happened. One request instead of one `series` per queue.",
    query: {
      queues: textField(
        `The commands of the queues, separated by commas; letter case is ignored. At most ${limits.trendQueuesMax}.`,
      ),
      last: wholeNumberField("The number of minutes (default: 30).", {
        minimum: 1,
        maximum: limits.trendMinutesMax,
      }),
    },
    refusals: ["invalid_command"],
    replies: { 200: { about: "The queues in the order of the request.", schema: "Trends" } },
    input: ({ query: { queues = "", last = "30" } }) => ({
      ok: true,
      value: { commands: queues === "" ? [] : queues.split(","), last: Number(last) },
    }),
    reply: (trends, codec) => json(trendsText(trends, (ms) => codec.instant(ms))),
  }),
  route({
    method: "GET",
    path: `${base}/queues/:command`,
    operation: getQueue,
    name: "getQueue",
    summary: "Count the tasks of a queue",
    params: queueParam,
    replies: {
      200: { about: "Counts by place; zeros for a queue without tasks.", schema: "QueueCounts" },
    },
    input: ({ params }) => ({ ok: true, value: { command: params["command"] ?? "" } }),
    reply: ({ counts, pause, topic, isPartial }, codec, { params }) => {
      const paused = pause === undefined ? undefined : pauseFields(pause, codec);
      const shown = topic && topicState(topic, counts.leased);
      const more = { paused, topic: shown, ...(isPartial ? { isPartial } : {}) };
      return json(queueStats(params["command"] ?? "", counts, more));
    },
  }),
  route({
    method: "POST",
    path: `${base}/queues/:command/pause`,
    operation: pauseQueue,
    name: "pauseQueue",
    summary: "Pause a queue",
    about: "No task of the queue is handed out until it is resumed; tasks can still be created.",
    params: queueParam,
    refusals: ["invalid_command", "too_many_pauses"],
    replies: { 200: { about: "Who paused it, when and why.", schema: "Pause" } },
    body: PauseBody,
    bodyOptional: true,
    input: ({ params, body }) => {
      const { reason } = (body ?? {}) as BodyOf<typeof PauseBody>;
      return { ok: true, value: { command: params["command"] ?? "", reason: reason ?? "" } };
    },
    reply: (pause, codec) => json(JSON.stringify(pausedFields(pause, codec))),
  }),
  route({
    method: "POST",
    path: `${base}/queues/:command/resume`,
    operation: resumeQueue,
    name: "resumeQueue",
    summary: "Resume a queue",
    params: queueParam,
    refusals: ["invalid_command"],
    replies: { 200: { about: "It is not paused.", schema: "Resumed" } },
    input: ({ params }) => ({ ok: true, value: { command: params["command"] ?? "" } }),
    reply: ({ queue }) => json(JSON.stringify({ command: queue, paused: false })),
  }),
  route({
    method: "GET",
    path: `${base}/pauses`,
    operation: listPauses,
    name: "listPauses",
    summary: "List paused queues",
    replies: { 200: { about: "All queues that are paused.", schema: "Pauses" } },
    input: () => ({ ok: true, value: undefined }),
    reply: (pauses, codec) =>
      json(JSON.stringify({ pauses: pauses.map((each) => pausedFields(each, codec)) })),
  }),
  route({
    method: "POST",
    path: `${base}/tasks/cleanup`,
    operation: cleanUp,
    name: "cleanUp",
    summary: "Delete finished tasks before their retention ends",
    replies: { 200: { about: "How many were deleted.", schema: "CleanedUp" } },
    body: CleanUpBody,
    bodyOptional: true,
    input: ({ body }) => {
      const { limit, before } = (body ?? {}) as BodyOf<typeof CleanUpBody>;
      return { ok: true, value: { limit: limit ?? 0, before: before ?? "" } };
    },
    reply: ({ beforeMs, deleted }, codec, { body }) => {
      const { limit, before } = (body ?? {}) as BodyOf<typeof CleanUpBody>;
      const shown =
        before === undefined || before === "" ? codec.seconds(beforeMs) : withoutFraction(before);
      return json(JSON.stringify({ before: shown, deleted, limit: limit ?? 0 }));
    },
  }),
  route({
    method: "GET",
    path: `${base}/tenants`,
    operation: listTenants,
    name: "listTenants",
    summary: "List tenants that have tasks",
    query: { after: textField("The last name of the previous page; empty for the first page.") },
    replies: { 200: { about: "Names in order.", schema: "Tenants" } },
    input: ({ query }) => ({ ok: true, value: { after: String(query["after"] ?? "") } }),
    reply: ({ tenants, hasMore, isPartial }) =>
      json(JSON.stringify({ tenants, hasMore, ...(isPartial ? { isPartial } : {}) })),
  }),
  route({
    method: "GET",
    path: `${base}/settings`,
    operation: listSettings,
    name: "listSettings",
    summary: "List the settings of the server",
    about: "What the server was started with. Secrets are not shown.",
    replies: { 200: { about: "Every setting, with where it comes from.", schema: "Settings" } },
    input: () => ({ ok: true, value: undefined }),
    reply: (settings) => json(JSON.stringify({ settings })),
  }),
] as const;

function pausedFields({ queue, ...pause }: PausedQueue, codec: JsonCodec): object {
  return { command: queue, ...pauseFields(pause, codec) };
}

function pauseFields({ by, atMs, reason }: QueuePause, codec: JsonCodec): object {
  return { by, at: codec.instant(atMs), ...(reason === "" ? {} : { reason }) };
}

/** Why claims may get nothing although tasks are ready. */
function topicState({ version, policy }: Topic, leased: number): object {
  const { maxConsumers } = policy;
  if (maxConsumers === 0) return { version };
  return { version, maxConsumers, isAtLimit: leased >= maxConsumers };
}

/** Keeps the caller's offset. */
function withoutFraction(instant: string): string {
  return instant.replace(/\.\d+/, "");
}
