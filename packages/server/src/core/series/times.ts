/**
 * How long tasks of a queue waited and ran, as counts in buckets whose bounds grow by the square root of 2, so that
 * a percentile is within a fifth of the true value, and the buckets of several minutes, queues and shards add up.
 */
import type { Task } from "@codeq/queue";
import type { Buckets, Times } from "../records/series-record.ts";

/** About 34 days and more. */
const bucketsMax = 64;

/** Counts from the first bucket that has any: of many queues most need few buckets. */
interface CountedTimes {
  from: number;
  counts: number[];
}

export interface MinuteTimes {
  readonly waits: CountedTimes;
  readonly runs: CountedTimes;
}

const noCounts: number[] = [];

export function noTimes(): MinuteTimes {
  return { waits: { from: 0, counts: noCounts }, runs: { from: 0, counts: noCounts } };
}

export function bucketsOf({ waits, runs }: MinuteTimes): Times {
  return { waits: allBuckets(waits), runs: allBuckets(runs) };
}

function allBuckets({ from, counts }: CountedTimes): Buckets {
  return [...Array<number>(from).fill(0), ...counts];
}

export function countTimes(
  into: MinuteTimes,
  before: Task | undefined,
  after: Task | undefined,
): void {
  if (before === undefined || after === undefined) return;
  if (after.place.in === "leased" && before.place.in === "ready") {
    addTime(into.waits, after.place.sinceMs - before.updatedMs);
  } else if (before.place.in === "leased" && after.place.in !== "leased") {
    addTime(into.runs, after.updatedMs - before.place.sinceMs);
  }
}

function addTime(into: CountedTimes, ms: number): void {
  const bucket = ms < 1 ? 0 : Math.min(bucketsMax - 1, 1 + Math.floor(2 * Math.log2(ms)));
  if (into.counts === noCounts) {
    into.from = bucket;
    into.counts = [1];
    return;
  }
  const { counts } = into;
  for (; into.from > bucket; into.from--) counts.unshift(0);
  const at = bucket - into.from;
  while (counts.length <= at) counts.push(0);
  counts[at] = (counts[at] ?? 0) + 1;
}

export function addTimes(one: Times, other: Times): Times {
  return { waits: addBuckets(one.waits, other.waits), runs: addBuckets(one.runs, other.runs) };
}

function addBuckets(one: Buckets, other: Buckets): Buckets {
  const [longer, shorter] = one.length < other.length ? [other, one] : [one, other];
  return longer.map((count, bucket) => count + (shorter[bucket] ?? 0));
}

/** In seconds, rounded to two digits; undefined without any time. */
export function quantileSeconds(buckets: Buckets, share: number): number | undefined {
  const rank = share * buckets.reduce((sum, count) => sum + count, 0);
  let seen = 0;
  for (const [bucket, count] of buckets.entries()) {
    seen += count;
    if (count > 0 && seen >= rank) {
      return bucket === 0 ? 0 : Number((2 ** ((bucket - 0.5) / 2) / 1000).toPrecision(2));
    }
  }
  return undefined;
}
