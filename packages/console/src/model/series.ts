/** Rates over time, with the minutes and hours in which nothing moved. */
import type { ReplyOf } from "@codeq/protocol";
import { ask, callOf, tenant } from "../api.ts";
import { type Answer, useAnswer, useQuery } from "../query.ts";
import { useStore } from "../store.ts";
import { failureShare, type Rates } from "./queues.ts";

/** Per second. */
export interface RatePoint {
  readonly atMs: number;
  readonly enqueued: number;
  readonly completed: number;
  readonly failed: number;
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
export function useSeries(range: Range, queue = ""): Answer<readonly RatePoint[]> {
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
  { points }: { readonly points: readonly (Rates & { readonly at: string })[] },
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
