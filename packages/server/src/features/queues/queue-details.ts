/** The data of a dashboard about queues, as JSON: counts, rates, ages, pauses and history. */

import type { QueueCounts } from "../../core/broker/queue.ts";
import { noCounts } from "../../core/records/counts.ts";
import type { QueuePause } from "../../core/records/pause-record.ts";
import { addFlow, addQueueCounts, type Flow, minuteMs, noFlow } from "../../core/series/flow.ts";
import type { QueueSeries } from "./get-series.ts";
import type { Trends } from "./get-trends.ts";
import type { TenantQueues } from "./queue-counts.ts";

export function queueDetails(
  { queues, pauses, leasesMax, nowMs }: TenantQueues,
  pauseFields: (pause: QueuePause) => object,
): string {
  const paused = new Map(pauses.map(({ queue, ...pause }) => [queue, pauseFields(pause)]));
  const totals = queues.reduce(addQueueCounts, noQueue);
  return JSON.stringify({
    queues: queues.map((each) => ({
      command: each.queue,
      ...detailsOf(each, nowMs),
      paused: paused.get(each.queue),
      inProgressMax: leasesMax.get(each.queue),
    })),
    totals: { queues: queues.length, ...detailsOf(totals, nowMs) },
  });
}

export function seriesText(
  { unit, points, usual }: QueueSeries,
  how: { readonly command?: string | undefined; readonly instant: (ms: number) => string },
): string {
  const sizeMs = unit === "m" ? minuteMs : 60 * minuteMs;
  return JSON.stringify({
    command: how.command,
    resolution: unit === "m" ? "minute" : "hour",
    points: points.map((point) => ({
      at: how.instant(point.number * sizeMs),
      enqueued: point.enqueued,
      completed: point.completed,
      failed: point.failed,
      retried: point.retried,
      ready: point.ready,
      delayed: point.delayed,
      inProgress: point.leased,
      dlq: point.dead,
      oldestSeconds: point.oldestMs === 0 ? undefined : point.oldestMs / 1000,
    })),
    usual,
  });
}

export function trendsText({ fromMs, queues }: Trends, instant: (ms: number) => string): string {
  return JSON.stringify({
    from: instant(fromMs),
    queues: queues.map(({ queue, minutes }) => ({
      command: queue,
      enqueued: minutes.map(({ enqueued }) => enqueued),
      completed: minutes.map(({ completed }) => completed),
      failed: minutes.map(({ failed }) => failed),
      retried: minutes.map(({ retried }) => retried),
    })),
  });
}

const noQueue: QueueCounts = {
  queue: "",
  counts: noCounts(),
  flow: noFlow(),
  oldestMs: undefined,
};

function detailsOf({ counts, flow, oldestMs }: QueueCounts, nowMs: number): object {
  const { delayed, leased, dead, failed } = counts;
  const ready = counts.ready.reduce((sum, count) => sum + count, 0);
  const rates = perSecond(flow);
  const endRate = rates.completed + rates.failed;
  return {
    ready,
    delayed,
    inProgress: leased,
    dlq: dead,
    failed,
    rates,
    oldestSeconds: oldestMs === undefined ? undefined : Math.max(0, nowMs - oldestMs) / 1000,
    drainSeconds: endRate === 0 ? undefined : rounded(ready / endRate),
  };
}

function perSecond(flow: Flow): Flow {
  const exact = addFlow(noFlow(), flow, 1000 / minuteMs);
  return {
    enqueued: rounded(exact.enqueued),
    completed: rounded(exact.completed),
    failed: rounded(exact.failed),
    retried: rounded(exact.retried),
  };
}

function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
