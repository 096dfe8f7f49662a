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

export interface SeriesPoint {
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

export function writeOfPoint(of: SeriesName, point: SeriesPoint): RecordWrite {
  return put(keyOf(of, point.number), names.map((name) => Math.round(point[name])).join(" "));
}

export function removalOfPoint(of: SeriesName, { number }: SeriesPoint): RecordWrite {
  return remove(keyOf(of, number));
}

/** Undefined when the text is not a valid point. */
export function decodePoint(number: string, text: string): SeriesPoint | undefined {
  const values = text.split(" ").map(Number);
  if (values.length !== names.length || !values.every(Number.isSafeInteger)) return undefined;
  const fields = Object.fromEntries(names.map((name, at) => [name, values[at]]));
  return { number: Number.parseInt(number, 16), ...fields } as SeriesPoint;
}

function keyOf({ name, tenantId, unit }: SeriesName, number: number): string {
  return seriesOf(name, tenantId, unit) + sortable(number);
}
