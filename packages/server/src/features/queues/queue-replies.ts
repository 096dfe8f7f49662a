/** Both views of all queues as JSON, and the answer of a clean-up; the other answers are written from their shapes. */
import type { QueueCounts } from "../../core/broker/broker.ts";
import { noCounts } from "../../core/records/counts.ts";
import { asksFor } from "../../core/search/explained.ts";
import { addFlow, addQueueCounts, type Flow, minuteMs, noFlow } from "../../core/series/flow.ts";
import type { JsonCodec } from "../../edge/http/json-codec.ts";
import { type HttpReply, json } from "../../edge/http/route.ts";
import type { CleanedUp, TenantQueues } from "./operations.ts";

export function queuesReply(all: TenantQueues, codec: JsonCodec): HttpReply {
  return {
    ...json(JSON.stringify(all.view === "details" ? detailed(all, codec) : buckets(all))),
    headers: all.isPartial ? { "Codeq-Partial": "true" } : {},
  };
}

function detailed(all: TenantQueues, codec: JsonCodec): object {
  const { queues, pauses, leasesMax, asking, nowMs } = all;
  const paused = new Map(
    pauses.map(({ queue, by, atMs, reason }) => [
      queue,
      { by, at: codec.instant(atMs), ...(reason === "" ? {} : { reason }) },
    ]),
  );
  const totals = queues.reduce(addQueueCounts, noQueue);
  return {
    queues: queues.map((each) => ({
      command: each.queue,
      ...detailsOf(each, nowMs),
      paused: paused.get(each.queue),
      inProgressMax: leasesMax.get(each.queue),
      workersAsking: asking.filter((worker) => asksFor(worker, each.queue)).length,
    })),
    totals: { queues: queues.length, ...detailsOf(totals, nowMs) },
  };
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

/** The flat map of bucket names that existing dashboards read; only buckets that hold something. */
function buckets({ tenantId, queues }: TenantQueues): object {
  const all: Record<string, number> = {};
  for (const { queue, counts } of queues) {
    const prefix = tenantId === "" ? `codeq:q:${queue}` : `codeq:q:${queue}:${tenantId}`;
    for (const [priority, count] of counts.ready.entries()) {
      if (count > 0) all[`${prefix}:pending:${priority}`] = count;
    }
    if (counts.leased > 0) all[`${prefix}:inprog`] = counts.leased;
    if (counts.delayed > 0) all[`${prefix}:delayed`] = counts.delayed;
    if (counts.dead > 0) all[`${prefix}:dlq`] = counts.dead;
  }
  return all;
}

/** Repeats the caller's moment with its offset, without a fraction. */
export function cleanedUpReply(
  { before, beforeMs, deleted, limit }: CleanedUp,
  codec: JsonCodec,
): HttpReply {
  const shown = before === "" ? codec.seconds(beforeMs) : before.replace(/\.\d+/, "");
  return json(JSON.stringify({ before: shown, deleted, limit }));
}
