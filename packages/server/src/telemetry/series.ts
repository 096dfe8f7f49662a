/**
 * The three kinds of metric, and how each is written out. `recordable` is what the code that
 * measures sees; its label values are typed by the table and are at most three.
 */
import { Cells, type LabelRow, type MetricRow, type Spellings } from "./registry.ts";

type Admit = (value: string) => string;
type Entry = readonly [value: number, ...labels: string[]];

/** One metric: what records into it, and its lines at a scrape. */
export interface Series {
  readonly recordable: object;
  lines(): string[];
}

export function createSeries(
  row: MetricRow,
  admits: readonly Admit[],
  spellings: Spellings,
): Series {
  const show = (labels: readonly LabelRow[], values: readonly string[]): string =>
    labelText(labels, values, spellings);
  return row.type === "histogram" ? histogram(row, admits, show) : numbers(row, admits, show);
}

type Show = (labels: readonly LabelRow[], values: readonly string[]) => string;

interface NumberCell {
  value: number;
}

/** Counters and gauges: one number per combination of labels. */
function numbers(row: MetricRow, admits: readonly Admit[], show: Show): Series {
  const cells = new Cells<NumberCell>(admits, () => ({ value: 0 }));
  let callback: (() => Iterable<Entry>) | undefined;
  let isThere = row.isOptional !== true;
  const recordable = {
    inc(a = "", b = "", c = ""): void {
      cells.at(a, b, c).value += 1;
    },
    add(amount: number, a = "", b = "", c = ""): void {
      if (amount > 0) cells.at(a, b, c).value += amount;
    },
    set(value: number, a = "", b = "", c = ""): void {
      cells.at(a, b, c).value = value;
    },
    collect(next: () => Iterable<Entry>): void {
      isThere = true;
      callback = next;
    },
  };
  const refresh = (): void => {
    if (callback === undefined) return;
    const fresh = [...callback()];
    cells.clear();
    if (admits.length === 0) cells.at("", "", "").value = 0;
    for (const [value, a = "", b = "", c = ""] of fresh) {
      const cell = cells.at(a, b, c);
      cell.value = row.sameLabels === "largest" ? Math.max(cell.value, value) : cell.value + value;
    }
  };
  return {
    recordable,
    lines() {
      if (!isThere) return [];
      refresh();
      return [...cells.entries()].map(
        ([labels, cell]) => `${row.name}${show(row.labels, labels)} ${numberText(cell.value)}`,
      );
    },
  };
}

interface HistogramCell {
  /** Observations per bucket, each counted once; the last is for those above every bound. */
  readonly counts: Float64Array;
  sum: number;
}

function histogram(row: MetricRow, admits: readonly Admit[], show: Show): Series {
  const bounds = row.buckets ?? [];
  const cells = new Cells<HistogramCell>(admits, () => ({
    counts: new Float64Array(bounds.length + 1),
    sum: 0,
  }));
  const recordable = {
    observe(value: number, a = "", b = "", c = ""): void {
      const cell = cells.at(a, b, c);
      let bucket = 0;
      while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket++;
      (cell.counts[bucket] as number) += 1;
      cell.sum += value;
    },
  };
  const cellLines = (labels: readonly string[], cell: HistogramCell): string[] => {
    const lines: string[] = [];
    let total = 0;
    for (const [index, count] of cell.counts.entries()) {
      total += count;
      const bound = bounds[index] ?? Number.POSITIVE_INFINITY;
      const text = show([...row.labels, { name: "le" }], [...labels, numberText(bound)]);
      lines.push(`${row.name}_bucket${text} ${total}`);
    }
    const text = show(row.labels, labels);
    lines.push(
      `${row.name}_sum${text} ${numberText(cell.sum)}`,
      `${row.name}_count${text} ${total}`,
    );
    return lines;
  };
  return {
    recordable,
    lines: () => [...cells.entries()].flatMap(([labels, cell]) => cellLines(labels, cell)),
  };
}

function labelText(
  rows: readonly LabelRow[],
  values: readonly string[],
  spellings: Spellings,
): string {
  if (rows.length === 0) return "";
  const pairs = rows.map(({ name }, index) => {
    const value = values[index] ?? "";
    return `${name}="${escapeLabel(name === "command" ? spellings.of(value) : value)}"`;
  });
  return `{${pairs.join(",")}}`;
}

function escapeLabel(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
}

function numberText(value: number): string {
  if (Number.isFinite(value) || Number.isNaN(value)) return String(value);
  return value > 0 ? "+Inf" : "-Inf";
}
