/**
 * What happened in a queue in one minute or hour, and the counts at its end, as text. The number of a point counts
 * the minutes or hours since 1970.
 */
import { put, remove } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import { seriesOf, sortable } from "../store/keys.ts";
import type { RecordWrite } from "../store/store.ts";

/** Stands for all queues of a tenant; no queue has this name. */
export const allQueues = "*";

export interface SeriesName {
  readonly name: string;
  readonly tenantId: TenantId;
  readonly unit: "m" | "h";
  /** How many of the latest points to read; all stored points by default. */
  readonly last?: number | undefined;
}

/** Counts by bucket; without an entry behind the last bucket that counts anything. */
export type Buckets = readonly number[];

export interface Times {
  /** From the moment at which a task became ready until a worker claimed it. */
  readonly waits: Buckets;
  /** From the claim until the attempt ended, however it ended. */
  readonly runs: Buckets;
}

export interface SeriesPoint extends Times {
  readonly number: number;
  readonly enqueued: number;
  readonly completed: number;
  readonly failed: number;
  readonly retried: number;
  /** The counts of tasks at the end. */
  readonly ready: number;
  readonly delayed: number;
  readonly leased: number;
  readonly dead: number;
  /** How long the oldest ready task had waited at the end. */
  readonly oldestMs: number;
}

export interface SeriesRange {
  readonly from: number;
  /** Not included. */
  readonly to: number;
  readonly limit: number;
  readonly isReverse?: boolean;
}

const names = [
  "enqueued",
  "completed",
  "failed",
  "retried",
  "ready",
  "delayed",
  "leased",
  "dead",
  "oldestMs",
] as const;

/** Numbers, and behind them the buckets of both times. */
export function writeOfPoint(of: SeriesName, point: SeriesPoint): RecordWrite {
  const counts = names.map((name) => Math.round(point[name])).join(" ");
  return put(keyOf(of, point.number), `${counts} ${point.waits.join()} ${point.runs.join()}`);
}

export function removalOfPoint(of: SeriesName, { number }: SeriesPoint): RecordWrite {
  return remove(keyOf(of, number));
}

/** Undefined when the text is not a valid point. */
export function decodePoint(number: string, text: string): SeriesPoint | undefined {
  const cells = text.split(" ");
  const [values, waits, runs] = [
    cells.slice(0, names.length).map(Number),
    bucketsIn(cells[names.length]),
    bucketsIn(cells[names.length + 1]),
  ];
  if (cells.length !== names.length + 2 || waits === undefined || runs === undefined)
    return undefined;
  if (!values.every(Number.isSafeInteger)) return undefined;
  const fields = Object.fromEntries(names.map((name, at) => [name, values[at]]));
  return { number: Number.parseInt(number, 16), ...fields, waits, runs } as SeriesPoint;
}

function bucketsIn(text = ""): Buckets | undefined {
  const counts = text === "" ? [] : text.split(",").map(Number);
  return counts.every(Number.isSafeInteger) ? counts : undefined;
}

function keyOf({ name, tenantId, unit }: SeriesName, number: number): string {
  return seriesOf(name, tenantId, unit) + sortable(number);
}
