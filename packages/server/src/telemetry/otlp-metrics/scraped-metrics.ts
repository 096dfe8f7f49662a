/** The measurements of this server, read back from their own text, so that those of all shards are in them. */

export interface ScrapedPoint {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface ScrapedHistogram {
  readonly labels: Readonly<Record<string, string>>;
  /** Upper bounds without the infinite one, and how many lie in each, with those above. */
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
