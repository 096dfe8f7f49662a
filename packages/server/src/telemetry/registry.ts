/**
 * A small Prometheus registry: counters, gauges and histograms with labels, written out in the text
 * format 0.0.4. Recording is a map lookup per label and an addition. The number of time series is
 * bounded: every open label keeps its first values and counts the rest as `_other`.
 */
export interface LabelRow {
  readonly name: string;
  /** All values the label can have; without them the label is open and its values are bounded. */
  readonly values?: readonly string[];
}

export interface MetricRow {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly LabelRow[];
  /** Values that a callback reports for the same labels are added up, or the largest one counts. */
  readonly sameLabels?: "largest";
  /** There is no line until something is recorded or collected. */
  readonly isOptional?: true;
  /** Upper bounds, ascending, without the infinite one; histograms only. */
  readonly buckets?: readonly number[];
}

type ValueOf<L> = L extends { readonly values: readonly (infer V extends string)[] } ? V : string;
export type LabelValues<L extends readonly LabelRow[]> = {
  readonly [I in keyof L]: ValueOf<L[I]>;
};

/** The values that a callback reports at a scrape; `sameLabels` decides how equal labels are merged. */
export type Collect<V extends readonly string[]> = () => Iterable<
  readonly [value: number, ...labels: V]
>;

export interface Counter<V extends readonly string[]> {
  inc(...labels: V): void;
  /** Adds an amount that is not negative. */
  add(amount: number, ...labels: V): void;
  /** Takes the totals from a callback at every scrape instead. */
  collect(callback: Collect<V>): void;
}

export interface Gauge<V extends readonly string[]> {
  set(value: number, ...labels: V): void;
  /** Takes the values from a callback at every scrape instead. */
  collect(callback: Collect<V>): void;
}

export interface Histogram<V extends readonly string[]> {
  observe(value: number, ...labels: V): void;
  /** The same value several times. */
  observeTimes(times: number, value: number, ...labels: V): void;
}

/** The label value for everything beyond the bound of an open label. */
const otherLabel = "_other";

/** The first values of one open label. All metrics share them, so that they have the same values. */
export class OpenLabel {
  readonly #admitted = new Set<string>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  admit(value: string): string {
    if (this.#admitted.has(value)) return value;
    if (this.#admitted.size >= this.#max) return otherLabel;
    this.#admitted.add(value);
    return value;
  }
}

/** The spelling of each queue that a producer used last. */
export class Spellings {
  readonly #written = new Map<string, string>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  /** `queue` is the command in lower case. */
  note(queue: string, command: string): void {
    if (this.#written.get(queue) === command) return;
    if (this.#written.size >= this.#max && !this.#written.has(queue)) return;
    this.#written.set(queue, command);
  }

  has(queue: string): boolean {
    return this.#written.has(queue);
  }

  of(queue: string): string {
    return this.#written.get(queue) ?? queue;
  }
}

type Admit = (value: string) => string;
type Level<Cell> = Map<string, Level<Cell> | Cell>;

/** Cells by label values: one map per label, so that finding one builds no key and no array. */
class Cells<Cell extends object> {
  readonly #root: Level<Cell> = new Map();
  readonly #admits: readonly Admit[];
  readonly #create: () => Cell;
  readonly #only: Cell | undefined;

  constructor(admits: readonly Admit[], create: () => Cell) {
    this.#admits = admits;
    this.#create = create;
    this.#only = admits.length === 0 ? create() : undefined;
  }

  at(a: string, b: string, c: string): Cell {
    if (this.#only !== undefined) return this.#only;
    const depth = this.#admits.length;
    let found = this.#root.get(a);
    if (depth > 1) found = (found as Level<Cell> | undefined)?.get(b);
    if (depth > 2) found = (found as Level<Cell> | undefined)?.get(c);
    return (found as Cell | undefined) ?? this.#add([a, b, c]);
  }

  clear(): void {
    this.#root.clear();
  }

  *entries(): Generator<readonly [labels: readonly string[], cell: Cell]> {
    if (this.#only !== undefined) yield [[], this.#only];
    else yield* this.#walk(this.#root, []);
  }

  *#walk(level: Level<Cell>, above: readonly string[]): Generator<[readonly string[], Cell]> {
    for (const [value, below] of level) {
      const labels = [...above, value];
      if (labels.length === this.#admits.length) yield [labels, below as Cell];
      else yield* this.#walk(below as Level<Cell>, labels);
    }
  }

  /** Adds a cell for new label values; values beyond the bound share the cell `_other`. */
  #add(values: readonly string[]): Cell {
    let level = this.#root;
    const last = this.#admits.length - 1;
    for (const [index, admit] of this.#admits.entries()) {
      const value = admit(values[index] ?? "");
      const known = level.get(value);
      if (index === last) {
        const cell = (known as Cell | undefined) ?? this.#create();
        level.set(value, cell);
        return cell;
      }
      const below: Level<Cell> = (known as Level<Cell> | undefined) ?? new Map();
      level.set(value, below);
      level = below;
    }
    throw new Error("a metric without labels has its one cell from the start");
  }
}

type Entry = readonly [value: number, ...labels: string[]];

/** One metric: what records into it, and its lines at a scrape. */
interface Series {
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
      recordable.observeTimes(1, value, a, b, c);
    },
    observeTimes(times: number, value: number, a = "", b = "", c = ""): void {
      const cell = cells.at(a, b, c);
      let bucket = 0;
      while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket++;
      (cell.counts[bucket] as number) += times;
      cell.sum += times * value;
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
