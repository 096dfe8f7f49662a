/** The entry of a unique key, as text: a JSON array, one position per field. */
import { type Op, put, remove } from "@codeq/engine";
import {
  laneOf,
  queueOf,
  type Task,
  type TaskId,
  type TenantId,
  type UniqueEntry,
} from "@codeq/queue";
import { keptKeyOf, uniqueKeyOf } from "../store/keys.ts";
import { parseRecord } from "../store/row-of.ts";

/** Which key: of a tenant and a queue. */
export interface UniqueName {
  readonly tenantId: TenantId;
  readonly queue: string;
  readonly key: string;
}

/** The name of the unique key of a task; undefined when it has none. */
export function uniqueNameOf(task: Task): UniqueName | undefined {
  const { tenantId, command, unique } = task;
  return unique && { tenantId, queue: queueOf(command), key: keyInLane(unique.key, laneOf(task)) };
}

/** A key in a lane is another one than the same key in another lane, because lanes may be in several shards. */
export function keyInLane(key: string, lane: string): string {
  return lane === "" ? key : `${key}\0${lane}`;
}

export function writesOfUnique(name: UniqueName, entry: UniqueEntry | undefined): Op[] {
  const key = uniqueKeyOf(name);
  if (entry === undefined) return [remove(key)];
  const { holder, waiting, untilMs, hasEnded } = entry;
  const write = put(key, JSON.stringify([holder, waiting, untilMs, hasEnded]));
  // An entry without a task is removed when its time is over.
  return hasEnded ? [write, put(keptKeyOf(untilMs, key), "")] : [write];
}

/** Undefined when it cannot be read. */
export function decodeUnique(text: string): UniqueEntry | undefined {
  const row = parseRecord(text);
  if (!Array.isArray(row) || row.length !== 4) return undefined;
  const [holder, waiting, untilMs, hasEnded] = row as unknown[];
  if (typeof holder !== "string" || typeof waiting !== "string") return undefined;
  if (!Number.isSafeInteger(untilMs) || typeof hasEnded !== "boolean") return undefined;
  const ids = { holder: holder as TaskId, waiting: waiting as TaskId };
  return { ...ids, untilMs: untilMs as number, hasEnded };
}
