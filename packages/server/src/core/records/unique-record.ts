/** The entry of a unique key, as text: a JSON array, one position per field. */
import { type Op, put, remove } from "@codeq/engine";
import { limits } from "@codeq/protocol";
import {
  durationMs,
  laneOf,
  queueOf,
  type Task,
  type TaskId,
  type TenantId,
  type UniqueEntry,
  type UniqueRequest,
  uniqueActions,
  uniqueWhiles,
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

/**
 * A key in a lane is another one than the same key in another lane, because lanes may be in several shards. Neither has
 * control characters.
 */
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

/** A unique key as a producer wrote it. */
export interface UniqueInput {
  readonly key?: string | undefined;
  readonly while?: string | undefined;
  readonly on?: string | undefined;
  readonly for?: string | undefined;
  readonly maxWait?: string | undefined;
}

export type ReadUnique =
  | { readonly ok: true; readonly value: UniqueRequest }
  | { readonly ok: false; readonly field: keyof UniqueInput; readonly rule: string };

export function readUnique(input: UniqueInput): ReadUnique {
  const { key = "", while: until = "", on = "" } = input;
  const max = limits.uniqueKeyCharsMax;
  const wrong = (field: keyof UniqueInput, rule: string): ReadUnique => ({
    ok: false,
    field,
    rule,
  });
  if (key === "" || key.length > max || !key.isWellFormed() || /\p{Cc}/u.test(key)) {
    return wrong("key", `1 to ${max} characters, and no control characters`);
  }
  const during = uniqueWhiles.find((each) => each === (until || "unfinished"));
  if (during === undefined) return wrong("while", `one of ${uniqueWhiles.join(", ")}`);
  const action = uniqueActions.find((each) => each === (on || "return"));
  if (action === undefined) return wrong("on", `one of ${uniqueActions.join(", ")}`);
  const lengthMax = `a length of time such as 5m, at most ${limits.uniqueSecondsMax} seconds`;
  const forMs = lengthOf(input.for);
  if (forMs === undefined) return wrong("for", lengthMax);
  const maxWaitMs = lengthOf(input.maxWait);
  if (maxWaitMs === undefined) return wrong("maxWait", lengthMax);
  return { ok: true, value: { key, while: during, on: action, forMs, maxWaitMs } };
}

/** 0 for none; undefined for what is no length of time. */
function lengthOf(text = ""): number | undefined {
  const ms = text === "" ? 0 : durationMs(text);
  return ms !== undefined && ms <= limits.uniqueSecondsMax * 1000 ? ms : undefined;
}
