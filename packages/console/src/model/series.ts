/** Rates over time, with the minutes and hours in which nothing moved. */
import type { ReplyOf } from "@codeq/protocol";
import { ask, callOf, tenant } from "../api.ts";
import { type Answer, useAnswer, useQuery } from "../query.ts";
import { useStore } from "../store.ts";
import { failureShare } from "./queues.ts";

/** Rates per second, and the times of the slowest minute or hour of the step; undefined without any. */
export interface SeriesPoint {
  readonly atMs: number;
  readonly enqueued: number;
  readonly completed: number;
  readonly failed: number;
  readonly waitP50Ms: number | undefined;
  readonly waitP99Ms: number | undefined;
  readonly runP50Ms: number | undefined;
  readonly runP99Ms: number | undefined;
}

type Series = ReplyOf<"GET /admin/series">;

export type Range = "1h" | "6h" | "24h" | "7d";
const steps: Readonly<
  Record<Range, { readonly stepMs: number; readonly count: number } & Pick<Series, "resolution">>
> = {
  "1h": { stepMs: 60_000, count: 60, resolution: "minute" },
  "6h": { stepMs: 180_000, count: 120, resolution: "minute" },
  "24h": { stepMs: 720_000, count: 120, resolution: "minute" },
  "7d": { stepMs: 3_600_000, count: 168, resolution: "hour" },
};

/** The rates of one queue; of all queues without a name. */
export function useSeries(range: Range, queue = ""): Answer<readonly SeriesPoint[]> {
  const { resolution } = steps[range];
  const query = { resolution };
  const request =
    queue === ""
      ? callOf("GET /admin/series", { query })
      : callOf("GET /admin/queues/:command/series", { params: { command: queue }, query });
  const follows = queue === "" ? {} : { queue };
  const answer = useAnswer("series", request, { everyMs: 10_000, follows });
  return { ...answer, data: answer.data && pointsOf(answer.data, range, Date.now()) };
}

/** Queues in one request for trends. */
const trendsMax = 100;
let wanted = new Map<string, PromiseWithResolvers<readonly number[]>>();

/** Completed tasks in each of the last 30 minutes. */
export function useTrend(queue: string): Answer<readonly number[]> {
  const of = useStore(tenant);
  return useQuery(`trend:${of}:${queue}`, () => loadTrend(queue), { everyMs: 60_000 });
}

/** Rows that are drawn together share a request. */
function loadTrend(queue: string): Promise<readonly number[]> {
  if (wanted.size === 0) setTimeout(loadWanted, 0);
  const trend = wanted.get(queue) ?? Promise.withResolvers<readonly number[]>();
  wanted.set(queue, trend);
  if (wanted.size === trendsMax) loadWanted();
  return trend.promise;
}

function loadWanted(): void {
  const asked = wanted;
  wanted = new Map();
  if (asked.size === 0) return;
  const query = { queues: [...asked.keys()].join(",") };
  ask(callOf("GET /admin/trends", { query })).then(
    ({ queues }) => {
      for (const { command, completed } of queues) asked.get(command)?.resolve(completed);
    },
    (error: Error) => {
      for (const trend of asked.values()) trend.reject(error);
    },
  );
}

/** The usual rates at this hour; undefined until the server has counted for some days. */
export function useUsual():
  | { readonly enqueuedPerSecond: number; readonly failing: number }
  | undefined {
  const request = callOf("GET /admin/series", { query: { resolution: "hour" } });
  const { data } = useAnswer("usual", request, { everyMs: 300_000 });
  const usual = data?.usual.find(({ hour }) => hour === new Date().getUTCHours());
  if (usual === undefined) return undefined;
  return { enqueuedPerSecond: usual.enqueued / 3600, failing: failureShare(usual) };
}

/** Evenly spaced up to the last whole step, per second. */
export function pointsOf(
  { points }: Pick<Series, "points">,
  range: Range,
  nowMs: number,
): SeriesPoint[] {
  const { stepMs, count } = steps[range];
  const end = Math.floor(nowMs / stepMs) * stepMs;
  const found = Array.from(
    { length: count },
    (_, index): Writable<SeriesPoint> => ({
      atMs: end - (count - 1 - index) * stepMs,
      enqueued: 0,
      completed: 0,
      failed: 0,
      waitP50Ms: undefined,
      waitP99Ms: undefined,
      runP50Ms: undefined,
      runP99Ms: undefined,
    }),
  );
  for (const point of points) {
    const index = count - 1 - (end - Math.floor(Date.parse(point.at) / stepMs) * stepMs) / stepMs;
    const slot = found[index];
    if (slot === undefined) continue;
    slot.enqueued += point.enqueued / (stepMs / 1000);
    slot.completed += point.completed / (stepMs / 1000);
    slot.failed += (point.failed + point.retried) / (stepMs / 1000);
    slot.waitP50Ms = slower(slot.waitP50Ms, point.waitP50Seconds);
    slot.waitP99Ms = slower(slot.waitP99Ms, point.waitP99Seconds);
    slot.runP50Ms = slower(slot.runP50Ms, point.runP50Seconds);
    slot.runP99Ms = slower(slot.runP99Ms, point.runP99Seconds);
  }
  return found;
}

type Writable<Point> = { -readonly [Name in keyof Point]: Point[Name] };

function slower(ms: number | undefined, seconds: number | undefined): number | undefined {
  return seconds === undefined ? ms : Math.max(ms ?? 0, seconds * 1000);
}
