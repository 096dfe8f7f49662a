/**
 * The history of a queue in a minute or an hour, and the counts at its end, as text. The number of a point
 * is that of its minute or hour since 1970.
 */
import { put, remove } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import { seriesOf, sortable } from "./keys.ts";
import type { RecordWrite } from "./store.ts";

/** Stands for all queues of a tenant; no queue is called so. */
export const allQueues = "*";

export interface SeriesName {
  readonly name: string;
  readonly tenantId: TenantId;
  readonly unit: "m" | "h";
  /** Only the latest; all that are kept without it. */
  readonly last?: number | undefined;
}

export interface SeriesPoint {
  readonly number: number;
  readonly enqueued: number;
  readonly completed: number;
  readonly failed: number;
  readonly retried: number;
  /** How many tasks were where when it ended. */
  readonly ready: number;
  readonly delayed: number;
  readonly leased: number;
  readonly dead: number;
  /** How long the oldest ready task had waited then. */
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

/** Undefined for what is no point. */
export function decodePoint(number: string, text: string): SeriesPoint | undefined {
  const values = text.split(" ").map(Number);
  if (values.length !== names.length || !values.every(Number.isSafeInteger)) return undefined;
  const fields = Object.fromEntries(names.map((name, at) => [name, values[at]]));
  return { number: Number.parseInt(number, 16), ...fields } as SeriesPoint;
}

function keyOf({ name, tenantId, unit }: SeriesName, number: number): string {
  return seriesOf(name, tenantId, unit) + sortable(number);
}
