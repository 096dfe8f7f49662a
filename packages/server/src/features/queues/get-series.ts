/** The history of a queue, or of all queues of a tenant, by the minute or by the hour. */
import { limits } from "@codeq/protocol";
import { queueOf } from "@codeq/queue";
import { allQueues, type SeriesPoint } from "../../core/records/series-record.ts";
import type { Flow } from "../../core/series/flow.ts";
import { type Operation, refusal } from "../../edge/operation.ts";

export interface GetSeriesInput {
  /** Undefined for all queues together. */
  readonly command: string | undefined;
  /** `minute` when it is not given. */
  readonly resolution: string | undefined;
  /** Only so many of the latest minutes or hours, and without what is usual. */
  readonly last: number | undefined;
}

export interface QueueSeries {
  readonly unit: "m" | "h";
  readonly points: readonly SeriesPoint[];
  /** By the hour of the day, in UTC: the median of the last days. */
  readonly usual: readonly (Flow & { readonly hour: number })[];
}

const hoursPerDay = 24;
const units = { minute: "m", hour: "h" } as const;

export const getSeries: Operation<GetSeriesInput, QueueSeries> = {
  name: "get_series",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants", target: ({ command = "" }) => command },
  run: async ({ queue }, call, { command, resolution = "minute", last }) => {
    if (command !== undefined && !limits.commandPattern.test(command)) {
      return refusal("invalid_command");
    }
    if (resolution !== "minute" && resolution !== "hour") {
      return refusal("invalid_argument", "invalid 'resolution' (use minute or hour)");
    }
    const { tenantId } = call.identity;
    const name = command === undefined ? allQueues : queueOf(command);
    const unit = units[resolution];
    if (last !== undefined) {
      if (last < 1) return refusal("invalid_argument", "invalid 'last' (1 or more)");
      const points = await queue.seriesOf({ name, tenantId, unit, last });
      return { ok: true, value: { unit, points, usual: [] } };
    }
    const hours = await queue.seriesOf({ name, tenantId, unit: "h" });
    const points = unit === "h" ? hours : await queue.seriesOf({ name, tenantId, unit });
    return { ok: true, value: { unit, points, usual: usualOf(hours) } };
  },
};

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
