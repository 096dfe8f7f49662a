/**
 * Merges several scrapes: series with the same labels are added up, or the maximum is taken where the table
 * says so. Metrics of a single store get a label with the number of the shard.
 */
import { largestMetrics } from "./metrics.ts";

const perShard =
  /^codeq_(commit_group|log|overlay|flush|lsm|write_(?:amplification|stall)|storage_state|ready_window)/;
/** The store of what is no task. */
const control = "control";

export function mergedScrape(
  own: string,
  shards: readonly { readonly shard: number; readonly text: string }[],
): string {
  const metrics = new Map<string, MergedMetric>();
  add(metrics, own, control);
  for (const { shard, text } of shards) add(metrics, text, String(shard));
  const lines = [...metrics.values()].flatMap((metric) => metric.lines());
  return lines.join("\n").concat("\n");
}

function add(metrics: Map<string, MergedMetric>, text: string, shard: string): void {
  let metric = new MergedMetric("");
  for (const line of text.split("\n")) {
    if (line === "") continue;
    if (line.startsWith("# ")) {
      const name = line.split(" ", 3)[2] ?? "";
      metric = metrics.get(name) ?? new MergedMetric(name);
      metrics.set(name, metric);
      metric.heads.add(line);
    } else metric.add(line, shard);
  }
}

class MergedMetric {
  /** What it is about, and of what type. */
  readonly heads: Set<string> = new Set();
  readonly #isPerShard: boolean;
  readonly #isLargest: boolean;
  readonly #values: Map<string, number> = new Map();

  constructor(name: string) {
    this.#isPerShard = perShard.test(name);
    this.#isLargest = largestMetrics.has(name);
  }

  add(line: string, shard: string): void {
    const end = line.lastIndexOf(" ");
    const series = line.slice(0, end);
    const name = this.#isPerShard ? withLabel(series, shard) : series;
    const value = Number(line.slice(end + 1).replace("Inf", "Infinity"));
    const before = this.#values.get(name);
    if (before === undefined) this.#values.set(name, value);
    else this.#values.set(name, this.#isLargest ? Math.max(before, value) : before + value);
  }

  lines(): readonly string[] {
    return [...this.heads, ...[...this.#values].map(lineOf)];
  }
}

function withLabel(series: string, shard: string): string {
  const at = series.indexOf("{");
  if (at < 0) return `${series}{shard="${shard}"}`;
  return `${series.slice(0, at)}{shard="${shard}",${series.slice(at + 1)}`;
}

function lineOf([name, value]: [string, number]): string {
  if (Number.isFinite(value) || Number.isNaN(value)) return `${name} ${value}`;
  return `${name} ${value > 0 ? "+Inf" : "-Inf"}`;
}
