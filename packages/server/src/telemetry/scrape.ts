/** The text of a scrape: merged from several shards, without the names of commands, and read back as measurements. */
import { largestMetrics } from "./metrics.ts";

const perShard =
  /^codeq_(commit_group|log|overlay|flush|lsm|write_(?:amplification|stall)|storage_state|ready_window)/;
/** The label value of the control store. */
const control = "control";

/**
 * Merges several scrapes: series with the same labels are added up, or the maximum is taken where the table
 * says so. Metrics of a single store get a label with the number of the shard.
 */
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
  /** The HELP and TYPE lines. */
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

const commandSeries = /^(\w+\{)(.*?)command="((?:[^"\\]|\\.)*)"(.*\}) (\S+)$/;
const together = "_all";

/**
 * Merges all commands into one series, for callers that may not see the names of commands. `largest` has the metrics
 * of which the largest value counts instead of the sum.
 */
export function hideCommands(text: string, largest: ReadonlySet<string>): string {
  const totals = new Map<string, number>();
  const lines: (string | { readonly total: string })[] = [];
  for (const line of text.split("\n")) {
    const [, start = "", before = "", , after = "", value = ""] = commandSeries.exec(line) ?? [];
    if (start === "") {
      lines.push(line);
      continue;
    }
    const name = `${start}${before}command="${together}"${after}`;
    const known = totals.get(name);
    if (known === undefined) lines.push({ total: name });
    const isLargest = largest.has(start.slice(0, -1));
    const more = Number(value);
    const sum = isLargest ? Math.max(known ?? more, more) : (known ?? 0) + more;
    totals.set(name, sum);
  }
  return lines
    .map((line) => (typeof line === "string" ? line : `${line.total} ${totals.get(line.total)}`))
    .join("\n");
}

export interface ScrapedPoint {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface ScrapedHistogram {
  readonly labels: Readonly<Record<string, string>>;
  /** Upper bounds without the infinite one, and the count of each bucket, including the infinite one. */
  readonly bounds: readonly number[];
  readonly counts: readonly number[];
  readonly sum: number;
  readonly count: number;
}

export type ScrapedMetric = { readonly name: string; readonly help: string } & (
  | { readonly type: "counter" | "gauge"; readonly points: readonly ScrapedPoint[] }
  | { readonly type: "histogram"; readonly histograms: readonly ScrapedHistogram[] }
);

interface Series {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Reads the measurements of a scrape. The scrape contains those of all shards. */
export function scrapedMetrics(text: string): ScrapedMetric[] {
  const helps = new Map<string, string>();
  const types = new Map<string, string>();
  const series: Series[] = [];
  for (const line of text.split("\n")) {
    const [, kind, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) ?(.*)$/.exec(line) ?? [];
    if (kind === "HELP") helps.set(name, rest);
    else if (kind === "TYPE") types.set(name, rest);
    else if (line !== "" && !line.startsWith("#")) series.push(seriesIn(line));
  }
  const byName = Map.groupBy(series, ({ name }) => ownerOf(name, types));
  return [...types].map(([name, type]): ScrapedMetric => {
    const about = { name, help: helps.get(name) ?? "" };
    const own = byName.get(name) ?? [];
    if (type === "histogram") return { ...about, type, histograms: histogramsOf(name, own) };
    return { ...about, type: type === "counter" ? "counter" : "gauge", points: own };
  });
}

/** The metric that a line belongs to: histograms have several lines each. */
function ownerOf(name: string, types: ReadonlyMap<string, string>): string {
  const [, base = ""] = /^(.*)_(?:bucket|sum|count)$/.exec(name) ?? [];
  return !types.has(name) && types.get(base) === "histogram" ? base : name;
}

function seriesIn(line: string): Series {
  const end = line.lastIndexOf(" ");
  const value = Number(line.slice(end + 1).replace("Inf", "Infinity"));
  const brace = line.indexOf("{");
  if (brace < 0) return { name: line.slice(0, end), labels: {}, value };
  const pairs = [...line.slice(brace, end).matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
  const labels = pairs.map(([, label = "", text = ""]) => [label, unescaped(text)] as const);
  return { name: line.slice(0, brace), labels: Object.fromEntries(labels), value };
}

function unescaped(text: string): string {
  return text.replace(/\\(.)/g, (_, char: string) => (char === "n" ? "\n" : char));
}

function histogramsOf(name: string, series: readonly Series[]): ScrapedHistogram[] {
  const groups = Map.groupBy(series, ({ labels: { le: _, ...rest } }) => JSON.stringify(rest));
  return [...groups].map(([labels, lines]) => {
    const of = (suffix: string): Series[] =>
      lines.filter((line) => line.name === `${name}_${suffix}`);
    const buckets = of("bucket").map(({ labels: { le = "" }, value }) => {
      return { bound: Number(le.replace("Inf", "Infinity")), upTo: value };
    });
    buckets.sort((one, other) => one.bound - other.bound);
    const counts = buckets.map(({ upTo }, at) => upTo - (buckets[at - 1]?.upTo ?? 0));
    return {
      labels: JSON.parse(labels),
      bounds: buckets.map(({ bound }) => bound).filter(Number.isFinite),
      counts,
      sum: of("sum")[0]?.value ?? 0,
      count: of("count")[0]?.value ?? 0,
    };
  });
}
