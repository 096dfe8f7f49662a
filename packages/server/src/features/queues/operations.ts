/**
 * What administrators see of the queues of a tenant, and do to them. Counts are answered from counters, not by counting;
 * history is by the minute or by the hour.
 */
import { limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import { queueOf } from "@codeq/queue";
import { describeConfig } from "../../config/describe.ts";
import type { QueueCounts } from "../../core/broker/broker.ts";
import { isEmpty, noCounts } from "../../core/records/counts.ts";
import type { PausedQueue } from "../../core/records/pause-record.ts";
import { allQueues, type SeriesPoint } from "../../core/records/series-record.ts";
import type { Topic } from "../../core/records/topic-record.ts";
import type { WaitingWorker } from "../../core/search/explained.ts";
import { type Flow, hasFlow, minuteMs, noFlow } from "../../core/series/flow.ts";
import { quantileSeconds } from "../../core/series/times.ts";
import { parseInstant } from "../../core/timestamps.ts";
import { bind, bindInput } from "../../edge/bind.ts";
import { type Answer, type Call, refusal, type Server } from "../../edge/operation.ts";

const readyIn = ({ ready }: { readonly ready: readonly number[] }): number =>
  ready.reduce((sum, count) => sum + count, 0);

export interface TenantQueues {
  readonly view: "buckets" | "details";
  readonly tenantId: string;
  /** In the order of their names. */
  readonly queues: readonly QueueCounts[];
  readonly pauses: readonly PausedQueue[];
  /** Only queues whose topics limit their leases. */
  readonly leasesMax: ReadonlyMap<string, number>;
  /** Workers that wait for tasks. */
  readonly asking: readonly WaitingWorker[];
  readonly nowMs: number;
  /** A shard is down, and its tasks are not counted. */
  readonly isPartial: boolean;
}

export const listQueues = bindInput(api.queues.listQueues, {
  run: async (server, call, { view = "buckets" }): Promise<Answer<TenantQueues>> => {
    const { tenantId } = call.identity;
    const queues = await server.broker.queuesOf(tenantId, view === "details");
    const pauses = await server.broker.pausesOf(tenantId);
    const paused = new Set(pauses.map(({ queue }) => queue));
    const shown = queues.filter(
      ({ queue, counts, flow }) => !isEmpty(counts) || hasFlow(flow) || paused.has(queue),
    );
    const sorted = shown.toSorted((one, other) => (one.queue < other.queue ? -1 : 1));
    const { isPartial } = server.broker;
    const nowMs = server.clock.nowMs();
    const topics = view === "details" ? await server.broker.topicsOf(tenantId) : [];
    const limited = topics.filter(({ policy }) => policy.maxConsumers > 0);
    const leasesMax = new Map(limited.map(({ name, policy }) => [name, policy.maxConsumers]));
    const asking = view === "details" ? server.broker.waitingWorkers(tenantId) : [];
    const value = { view, tenantId, queues: sorted, pauses, leasesMax, asking, nowMs, isPartial };
    return { ok: true, value };
  },
});

export const getQueue = bind(api.queues.getQueue, {
  run: async (server, call, { command }) => {
    if (command.trim() === "") return refusal("invalid_argument", "command is required");
    if (!limits.commandPattern.test(command)) {
      return { ok: true, value: countsOf(command, noCounts()) };
    }
    const { tenantId } = call.identity;
    const counts = await server.broker.counts(tenantId, command);
    const isPartial = server.broker.isPartial ? (true as const) : undefined;
    const name = queueOf(command);
    const paused = (await server.broker.pausesOf(tenantId)).find(({ queue }) => queue === name);
    const topic = (await server.broker.topicsOf(tenantId)).find((each) => each.name === name);
    const shown = topic && topicState(topic, counts.leased);
    return { ok: true, value: { ...countsOf(command, counts), paused, topic: shown, isPartial } };
  },
});

function countsOf(command: string, counts: QueueCounts["counts"]) {
  const { delayed, leased, dead, failed } = counts;
  return { command, ready: readyIn(counts), delayed, inProgress: leased, dlq: dead, failed };
}

/** Why claims may get nothing although tasks are ready. */
function topicState({ version, policy }: Topic, leased: number) {
  const { maxConsumers } = policy;
  if (maxConsumers === 0) return { version };
  return { version, maxConsumers, isAtLimit: leased >= maxConsumers };
}

export const pauseQueue = bind(api.queues.pauseQueue, {
  run: async ({ broker, clock }, call, { command, reason }) => {
    const name = queueOf(command);
    const { tenantId, subject } = call.identity;
    const paused = await broker.pausesOf(tenantId);
    const isNew = paused.every((each) => each.queue !== name);
    if (isNew && paused.length >= limits.pausesPerTenantMax) return refusal("too_many_pauses");
    const pause = { by: subject, atMs: clock.nowMs(), reason };
    await broker.pause({ tenantId, name }, pause);
    return { ok: true, value: { queue: name, ...pause } };
  },
  audit: { detail: ({ reason }) => reason },
});

export const resumeQueue = bind(api.queues.resumeQueue, {
  run: async ({ broker }, call, { command }) => {
    const name = queueOf(command);
    await broker.pause({ tenantId: call.identity.tenantId, name }, undefined);
    return { ok: true, value: { command: name, paused: false as const } };
  },
});

export const listPauses = bind(api.queues.listPauses, {
  run: async ({ broker }, call) => {
    const paused = await broker.pausesOf(call.identity.tenantId);
    const pauses = paused.toSorted((a, b) => (a.queue < b.queue ? -1 : 1));
    return { ok: true, value: { pauses } };
  },
});

export interface CleanedUp {
  /** The instant as the caller wrote it; empty for now. */
  readonly before: string;
  readonly beforeMs: number;
  readonly deleted: number;
  readonly limit: number;
}

/**
 * Deletes finished tasks before their retention ends. Only finished tasks have a retention, so waiting and running
 * tasks are never deleted, whatever the cut-off.
 */
export const cleanUp = bindInput(api.queues.cleanUp, {
  rate: { scope: "admin", operation: "cleanup" },
  run: async (server, call, { before, limit }): Promise<Answer<CleanedUp>> => {
    const beforeMs = before === "" ? server.clock.nowMs() : parseInstant(before);
    if (beforeMs === undefined)
      return refusal("invalid_argument", "invalid 'before' (use RFC3339)");
    const deleted = await server.broker.cleanUp({
      tenantId: call.identity.tenantId,
      beforeMs,
      limit: limit <= 0 ? limits.cleanupLimitDefault : limit,
    });
    return { ok: true, value: { before, beforeMs, deleted, limit } };
  },
  audit: {
    target: ({ before }) => before,
    detail: ({ deleted }) => `deleted ${deleted} tasks`,
  },
});

export const listSettings = bind(api.queues.listSettings, {
  run: ({ config }) => ({ ok: true, value: { settings: describeConfig(config) } }),
});

interface WantedSeries {
  /** Undefined for all queues together. */
  readonly command?: string;
  readonly resolution?: "minute" | "hour" | undefined;
  readonly last?: number | undefined;
}

async function seriesOf(
  { broker }: Server,
  call: Call,
  { command, resolution = "minute", last }: WantedSeries,
) {
  const { tenantId } = call.identity;
  const name = command === undefined ? allQueues : queueOf(command);
  const unit = resolution === "minute" ? "m" : "h";
  const pointsOf = (points: readonly SeriesPoint[]) =>
    points.map(({ number, leased, dead, oldestMs, waits, runs, ...point }) => ({
      ...point,
      waitP50Seconds: quantileSeconds(waits, 0.5),
      waitP99Seconds: quantileSeconds(waits, 0.99),
      runP50Seconds: quantileSeconds(runs, 0.5),
      runP99Seconds: quantileSeconds(runs, 0.99),
      atMs: number * (unit === "m" ? minuteMs : 60 * minuteMs),
      inProgress: leased,
      dlq: dead,
      oldestSeconds: oldestMs === 0 ? undefined : oldestMs / 1000,
    }));
  if (last !== undefined) {
    const points = await broker.seriesOf({ name, tenantId, unit, last });
    return { command, resolution, points: pointsOf(points), usual: [] };
  }
  const hours = await broker.seriesOf({ name, tenantId, unit: "h" });
  const points = unit === "h" ? hours : await broker.seriesOf({ name, tenantId, unit });
  return { command, resolution, points: pointsOf(points), usual: usualOf(hours) };
}

export const getQueueSeries = bind(api.queues.getQueueSeries, {
  run: async (server, call, wanted) => ({ ok: true, value: await seriesOf(server, call, wanted) }),
});

export const getSeries = bind(api.queues.getSeries, {
  run: async (server, call, wanted) => ({ ok: true, value: await seriesOf(server, call, wanted) }),
});

const hoursPerDay = 24;

/** By the hour of the day, in UTC: the median of the last days. */
function usualOf(hours: readonly SeriesPoint[]): (Flow & { readonly hour: number })[] {
  const byHour = Map.groupBy(hours, ({ number }) => number % hoursPerDay);
  return [...byHour]
    .sort(([one], [other]) => one - other)
    .map(([hour, points]) => ({
      hour,
      enqueued: median(points.map(({ enqueued }) => enqueued)),
      completed: median(points.map(({ completed }) => completed)),
      failed: median(points.map(({ failed }) => failed)),
      retried: median(points.map(({ retried }) => retried)),
    }));
}

function median(values: number[]): number {
  const sorted = values.sort((one, other) => one - other);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? 0) + upper) / 2;
}

export const getTrends = bind(api.queues.getTrends, {
  run: async ({ broker, clock }, call, { queues: wanted, last }) => {
    const commands = wanted === "" ? [] : wanted.split(",");
    const { trendQueuesMax } = limits;
    if (commands.length > trendQueuesMax) {
      const text = `at most ${trendQueuesMax} queues in one request, got ${commands.length}; ask for the others in another request`;
      return refusal("invalid_argument", text);
    }
    if (!commands.every((each) => limits.commandPattern.test(each))) {
      return refusal("invalid_command");
    }
    const end = Math.floor(clock.nowMs() / minuteMs);
    const from = end - last;
    const { tenantId } = call.identity;
    const trendOf = async (name: string) => {
      // The running minute has a point after a restart.
      const points = await broker.seriesOf({ name, tenantId, unit: "m", last: last + 1 });
      const minutes = new Array<Flow>(last).fill(noFlow());
      for (const point of points) {
        const index = point.number - from;
        if (index >= 0 && index < last) minutes[index] = point;
      }
      return {
        command: name,
        enqueued: minutes.map(({ enqueued }) => enqueued),
        completed: minutes.map(({ completed }) => completed),
        failed: minutes.map(({ failed }) => failed),
        retried: minutes.map(({ retried }) => retried),
      };
    };
    const queues = await Promise.all([...new Set(commands.map(queueOf))].map(trendOf));
    return { ok: true, value: { fromMs: from * minuteMs, queues } };
  },
  audit: { target: ({ queues }) => queues },
});

/** The tenants that have tasks waiting, in progress or as dead letters, so that an operator knows where to act. */
export const listTenants = bind(api.queues.listTenants, {
  run: async ({ broker }, _call, { after }) => {
    const names = (await broker.tenants()).filter((name) => name > after).sort();
    const tenants = names.slice(0, limits.tenantsPerPage);
    const hasMore = names.length > tenants.length;
    return { ok: true, value: { tenants, hasMore, isPartial: broker.isPartial } };
  },
});
