/** The buckets of a histogram at one moment, and the difference between two moments. */
import type { MetricsText } from "./metrics-text.ts";

export interface Bucket {
  /** Upper bound. */
  readonly to: number;
  /** Observations up to it. */
  readonly count: number;
}

/** The buckets of all samples with these labels, added up. */
export function bucketsIn(
  metrics: MetricsText,
  name: string,
  labels: (labels: Readonly<Record<string, string>>) => boolean = () => true,
): readonly Bucket[] {
  const counts = new Map<number, number>();
  for (const sample of metrics.all(`${name}_bucket`)) {
    if (!labels(sample.labels)) continue;
    const text = sample.labels["le"] ?? "";
    const to = text === "+Inf" ? Number.POSITIVE_INFINITY : Number(text);
    counts.set(to, (counts.get(to) ?? 0) + sample.value);
  }
  return [...counts].map(([to, count]) => ({ to, count })).sort((a, b) => a.to - b.to);
}

export function between(before: readonly Bucket[], after: readonly Bucket[]): readonly Bucket[] {
  const earlier = new Map(before.map(({ to, count }) => [to, count]));
  return after.map(({ to, count }) => ({ to, count: count - (earlier.get(to) ?? 0) }));
}

/**
 * Where the given share of the observations lies, evenly spread inside its bucket; undefined when
 * there are none. In the open last bucket it is the bound before it.
 */
export function quantile(buckets: readonly Bucket[], share: number): number | undefined {
  const total = buckets.at(-1)?.count ?? 0;
  if (total <= 0) return undefined;
  const rank = share * total;
  let from = 0;
  let below = 0;
  for (const { to, count } of buckets) {
    if (count >= rank) {
      if (!Number.isFinite(to)) return from;
      const inside = count - below;
      return inside === 0 ? to : from + ((to - from) * (rank - below)) / inside;
    }
    from = to;
    below = count;
  }
  return from;
}
