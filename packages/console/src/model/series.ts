/** Rates over time, with the minutes and hours in which nothing moved. */
import { ask, tenant } from "../api.ts";
import type { RatePoint } from "../parts/charts.tsx";
import { type Answer, useQuery } from "../query.ts";
import { useStore } from "../store.ts";

interface SeriesPoint {
  readonly at: string;
  readonly enqueued: number;
  readonly completed: number;
  readonly failed: number;
  readonly retried: number;
}

interface Series {
  readonly resolution: "minute" | "hour";
  readonly points: readonly SeriesPoint[];
}

export type Range = "1h" | "6h" | "24h" | "7d";
const steps: Readonly<
  Record<Range, { readonly stepMs: number; readonly count: number; resolution: string }>
> = {
  "1h": { stepMs: 60_000, count: 60, resolution: "minute" },
  "6h": { stepMs: 180_000, count: 120, resolution: "minute" },
  "24h": { stepMs: 720_000, count: 120, resolution: "minute" },
  "7d": { stepMs: 3_600_000, count: 168, resolution: "hour" },
};

/** Of one queue, or of all. */
export function useSeries(range: Range, queue = ""): Answer<readonly RatePoint[]> {
  const of = useStore(tenant);
  const { resolution } = steps[range];
  const path =
    queue === ""
      ? "/v1/codeq/admin/series"
      : `/v1/codeq/admin/queues/${encodeURIComponent(queue)}/series`;
  const answer = useQuery(
    `series:${of}:${queue}:${resolution}`,
    () => ask<Series>({ path, query: { resolution } }),
    { everyMs: 10_000 },
  );
  return { ...answer, data: answer.data && pointsOf(answer.data, range, Date.now()) };
}

/** Evenly spaced up to the last whole step, per second. */
export function pointsOf(
  { points }: Pick<Series, "points">,
  range: Range,
  nowMs: number,
): RatePoint[] {
  const { stepMs, count } = steps[range];
  const end = Math.floor(nowMs / stepMs) * stepMs;
  const found = Array.from({ length: count }, (_, index) => ({
    atMs: end - (count - 1 - index) * stepMs,
    enqueued: 0,
    completed: 0,
    failed: 0,
  }));
  for (const point of points) {
    const index = count - 1 - (end - Math.floor(Date.parse(point.at) / stepMs) * stepMs) / stepMs;
    const slot = found[index];
    if (slot === undefined) continue;
    slot.enqueued += point.enqueued / (stepMs / 1000);
    slot.completed += point.completed / (stepMs / 1000);
    slot.failed += (point.failed + point.retried) / (stepMs / 1000);
  }
  return found;
}
