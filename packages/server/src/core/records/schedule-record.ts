/**
 * A schedule as text, in two records: what was put, which may be large, and up to where it was fired, which is written
 * with every firing.
 */
import { put, remove } from "@codeq/engine";
import * as api from "@codeq/protocol/api";
import {
  type ScheduleState,
  type Skips,
  type SpecText,
  skipReasons,
  type TaskId,
  type TenantId,
} from "@codeq/queue";
import { scheduleKey, scheduleStateKey } from "../store/keys.ts";
import { LateWrite } from "../store/late-writes.ts";
import { fieldsOf, parseRecord, rowOf } from "../store/row-of.ts";
import type { RecordWrite } from "../store/store.ts";

export type ScheduleOptions = api.KeptOf<typeof api.ScheduleBody>;
export type ShownSchedule = api.KeptOf<typeof api.Schedule>;
export type ShownRun = api.KeptOf<typeof api.ScheduleRun>;

/** The task or the skips of one nominal instant. */
export interface InstantOfSchedule {
  readonly taskId: TaskId | undefined;
  readonly skips: Skips | undefined;
}

/** A schedule of a tenant. */
export interface ScheduleOf {
  readonly tenantId: TenantId;
  readonly id: string;
}

export interface PutRecord extends ScheduleOf {
  readonly options: ScheduleOptions;
  readonly version: number;
  readonly createdMs: number;
  readonly updatedMs: number;
}

const row = rowOf({
  ...fieldsOf(api.Schedule, "version", "createdAt", "updatedAt"),
  ...fieldsOf(api.ScheduleBody, "command", "payload", "priority", "webhook", "maxAttempts"),
  ...fieldsOf(api.ScheduleBody, "timeoutSeconds", "ttlSeconds", "tags"),
  ...fieldsOf(api.ScheduleBody, "cron", "every", "offset", "tz", "from", "until", "except"),
  ...fieldsOf(api.ScheduleBody, "times", "overlap", "graceSeconds", "catchUp", "within"),
  ...fieldsOf(api.ScheduleBody, "spread", "pauseAfterFailures", "lane", "cost"),
  // As JSON; records that were written before have none.
  uniqueText: api.text("", { none: "" }),
});

function textOf({ unique, ...options }: ScheduleOptions, rest: Versioned): string {
  const uniqueText = unique === undefined ? "" : JSON.stringify(unique);
  return row.encode({ ...options, ...rest, uniqueText });
}

type Versioned = Pick<PutRecord, "version" | "createdMs" | "updatedMs">;

export function writeOfSchedule({ tenantId, id, options, ...rest }: PutRecord): RecordWrite {
  return put(scheduleKey(tenantId, id), textOf(options, rest));
}

export function removalsOfSchedule({ tenantId, id }: ScheduleOf): RecordWrite[] {
  return [remove(scheduleKey(tenantId, id)), remove(scheduleStateKey(tenantId, id))];
}

/** Undefined when the text is not a valid record. */
export function decodeSchedule(of: ScheduleOf, text: string): PutRecord | undefined {
  const read = row.decode(text);
  if (read === undefined) return undefined;
  const { version, createdMs, updatedMs, uniqueText, ...rest } = read;
  const unique = uniqueText === "" ? undefined : parseRecord(uniqueText);
  const options = { ...rest, unique: unique as ScheduleOptions["unique"] };
  return { ...of, options, version, createdMs, updatedMs };
}

/** The part of the options that decides when the schedule fires. */
export function specTextOf(options: SpecText): SpecText {
  const { cron, every, offset, tz, fromMs, untilMs, except } = options;
  return { cron, every, offset, tz, fromMs, untilMs, except };
}

/** The key whose shard a schedule and its tasks are in. */
export function homeOfSchedule(id: string): string {
  return `schedule/${id}`;
}

/** The same for every request that asks for the same. */
export function textOfOptions(options: ScheduleOptions): string {
  return textOf(options, { version: 0, createdMs: 0, updatedMs: 0 });
}

export function writeOfState({ tenantId, id }: ScheduleOf, state: ScheduleState): RecordWrite {
  return new LateWrite(scheduleStateKey(tenantId, id), () => textOfState(state));
}

function textOfState(state: ScheduleState): string {
  const { handledMs, fired, firedMs = null, skipped, skips, waitingMs = null, failures } = state;
  const { pause } = state;
  const paused = pause === undefined ? null : JSON.stringify([pause.by, pause.reason, pause.atMs]);
  // By hand, because it is written with every firing: JSON.stringify takes several times as long.
  let counts = "";
  for (const why of skipReasons) counts += counts === "" ? skipped[why] : `,${skipped[why]}`;
  let kept = "";
  for (const { why, fromMs, toMs, count } of skips) {
    kept += `${kept === "" ? "" : ","}["${why}",${fromMs},${toMs},${count}]`;
  }
  const numbers = `${handledMs},${fired},${firedMs},[${counts}]`;
  return `[${numbers},[${kept}],${waitingMs},${failures},${paused}]`;
}

/** Undefined when the text is not a valid record. */
export function decodeState(text: string): ScheduleState | undefined {
  const read = parseRecord(text);
  if (!Array.isArray(read) || read.length !== 8) return undefined;
  const [handledMs, fired, firedMs, counts, kept, waitingMs, failures, paused] = read as unknown[];
  const isWhole = [handledMs, fired, failures].every(Number.isSafeInteger);
  const isMaybe = [firedMs, waitingMs].every((ms) => ms === null || Number.isSafeInteger(ms));
  if (!isWhole || !isMaybe || !Array.isArray(counts) || !Array.isArray(kept)) return undefined;
  const isPause = paused === null || (Array.isArray(paused) && paused.length === 3);
  if (!isPause || !counts.every(Number.isSafeInteger)) return undefined;
  const [by, reason, atMs] = (paused ?? []) as [string, string, number];
  return {
    handledMs: handledMs as number,
    fired: fired as number,
    firedMs: (firedMs ?? undefined) as number | undefined,
    skipped: Object.fromEntries(
      skipReasons.map((why, at) => [why, (counts[at] as number | undefined) ?? 0]),
    ) as ScheduleState["skipped"],
    skips: kept.flatMap(decodeSkips),
    waitingMs: (waitingMs ?? undefined) as number | undefined,
    failures: failures as number,
    pause: paused === null ? undefined : { by, reason, atMs },
  };
}

function decodeSkips(read: unknown): Skips[] {
  if (!Array.isArray(read) || !skipReasons.includes(read[0])) return [];
  const [why, fromMs, toMs, count] = read as [Skips["why"], number, number, number];
  return [{ why, fromMs, toMs, count }];
}
