/**
 * Tasks as bytes. A record is the difference between two states of a task: which columns differ, then their values.
 * The log holds every change like this; the kv holds the difference to a blank task. The table `columns` says how
 * each field is written; `blankTask`, `roomOfTask` and `changedColumns` list the fields again, for speed, and the
 * round-trip test fails when one of them misses a field.
 *
 *   record = version u8, which columns u32, the value of each
 *
 * To add a field, add a column at the end: records that lack it have its blank value. Bytes that cannot be decoded
 * give undefined, and the caller quarantines them.
 */
import {
  type Artifact,
  comebacks,
  type LogLine,
  type PastAttempt,
  type Place,
  type Progress,
  type ResultBody,
  type Task,
  type TaskExtras,
  type TaskId,
  type TaskRepairs,
  type TenantId,
  type Trail,
  type WorkerId,
} from "@codeq/queue";
import {
  ByteReader,
  DamagedBytes,
  numberBytesMax,
  textExtraBytes,
  unitBytesMax,
  writeNumber,
  writeText,
} from "./bytes.ts";

const recordVersion = 1;
const headBytes = 5;

/** One field of a task. */
interface Column<Value> {
  readonly of: (task: Task) => Value;
  readonly blank: Value;
  readonly write: (buffer: Buffer, at: number, value: Value) => number;
  readonly read: (reader: ByteReader) => Value;
}

type Columns = { readonly [Name in Exclude<keyof Task, "id">]: Column<Task[Name]> };

const readText = (reader: ByteReader): string => reader.text();
const readNumber = (reader: ByteReader): number => reader.number();
const roomOfText = (text: string): number => textExtraBytes + text.length * unitBytesMax;

function text<Value extends string>(of: (task: Task) => Value): Column<Value> {
  const read = readText as (reader: ByteReader) => Value;
  return { of, blank: "" as Value, write: writeText, read };
}

function number(of: (task: Task) => number): Column<number> {
  return { of, blank: 0, write: writeNumber, read: readNumber };
}

/** The position of a column is stored: add new columns at the end only. */
const columns: Columns = {
  tenantId: text<TenantId>((task) => task.tenantId),
  command: text((task) => task.command),
  priority: number((task) => task.priority),
  webhook: text((task) => task.webhook),
  traceParent: text((task) => task.traceParent),
  traceState: text((task) => task.traceState),
  idempotencyKey: text((task) => task.idempotencyKey),
  payload: {
    of: (task) => task.payload,
    blank: undefined,
    write: writePayload,
    read: (reader) => (isThere(reader) ? reader.text() : undefined),
  },
  maxAttempts: number((task) => task.maxAttempts),
  attempts: number((task) => task.attempts),
  handBacks: number((task) => task.handBacks),
  leaseToken: number((task) => task.leaseToken),
  error: text((task) => task.error),
  createdMs: number((task) => task.createdMs),
  updatedMs: number((task) => task.updatedMs),
  storedBytes: number((task) => task.storedBytes),
  place: {
    of: (task) => task.place,
    blank: { in: "ready", seq: 0 },
    write: writePlace,
    read: readPlace,
  },
  result: {
    of: (task) => task.result,
    blank: undefined,
    write: writeResult,
    read: readResult,
  },
  replays: number((task) => task.replays),
  cancelMs: number((task) => task.cancelMs),
  extras: {
    of: (task) => task.extras,
    blank: undefined,
    write: writeExtras,
    read: readExtras,
  },
  repairs: {
    of: (task) => task.repairs,
    blank: undefined,
    write: writeRepairs,
    read: readRepairs,
  },
  trail: {
    of: (task) => task.trail,
    blank: undefined,
    write: writeTrail,
    read: readTrail,
  },
};

const names = Object.keys(columns) as (keyof Columns)[];
const list = Object.values(columns) as readonly Column<unknown>[];
/** The largest number takes more bytes than the mark of a missing value, and than the head of a text. */
const fixedBytes = headBytes + list.length * numberBytesMax;

/** Has the same hidden class as every other task, so that tasks from the store stay fast to use. */
const blankTask: Task = {
  id: "" as TaskId,
  tenantId: columns.tenantId.blank,
  command: columns.command.blank,
  priority: columns.priority.blank,
  webhook: columns.webhook.blank,
  traceParent: columns.traceParent.blank,
  traceState: columns.traceState.blank,
  idempotencyKey: columns.idempotencyKey.blank,
  payload: columns.payload.blank,
  maxAttempts: columns.maxAttempts.blank,
  attempts: columns.attempts.blank,
  handBacks: columns.handBacks.blank,
  replays: columns.replays.blank,
  cancelMs: columns.cancelMs.blank,
  leaseToken: columns.leaseToken.blank,
  error: columns.error.blank,
  createdMs: columns.createdMs.blank,
  updatedMs: columns.updatedMs.blank,
  storedBytes: columns.storedBytes.blank,
  place: columns.place.blank,
  result: columns.result.blank,
  extras: columns.extras.blank,
  repairs: columns.repairs.blank,
  trail: columns.trail.blank,
};

/** At least as many bytes as `writeTask` takes. One line for each column that is more than a number. */
export function roomOfTask(task: Task): number {
  const { tenantId, command, webhook, traceParent, traceState, idempotencyKey, error } = task;
  const { payload, place, result, extras, repairs, trail } = task;
  const fromProducer = webhook.length + traceParent.length + traceState.length;
  const chars = tenantId.length + command.length + fromProducer + idempotencyKey.length;
  let bytes = fixedBytes + (chars + error.length) * unitBytesMax + roomOfPlace(place);
  if (payload !== undefined) bytes += roomOfText(payload);
  if (result !== undefined) bytes += roomOfResult(result);
  if (extras !== undefined) bytes += roomOfExtras(extras);
  if (repairs !== undefined) bytes += roomOfRepairs(repairs);
  if (trail !== undefined) bytes += roomOfTrail(trail);
  return bytes;
}

/**
 * A bit for each column whose value has changed, compared by identity. Written out, because a loop over the columns
 * takes several times as long, and this runs three times in the life of every task.
 */
function changedColumns(task: Task, before: Task): number {
  return (
    (Number(task.tenantId !== before.tenantId) << 0) |
    (Number(task.command !== before.command) << 1) |
    (Number(task.priority !== before.priority) << 2) |
    (Number(task.webhook !== before.webhook) << 3) |
    (Number(task.traceParent !== before.traceParent) << 4) |
    (Number(task.traceState !== before.traceState) << 5) |
    (Number(task.idempotencyKey !== before.idempotencyKey) << 6) |
    (Number(task.payload !== before.payload) << 7) |
    (Number(task.maxAttempts !== before.maxAttempts) << 8) |
    (Number(task.attempts !== before.attempts) << 9) |
    (Number(task.handBacks !== before.handBacks) << 10) |
    (Number(task.leaseToken !== before.leaseToken) << 11) |
    (Number(task.error !== before.error) << 12) |
    (Number(task.createdMs !== before.createdMs) << 13) |
    (Number(task.updatedMs !== before.updatedMs) << 14) |
    (Number(task.storedBytes !== before.storedBytes) << 15) |
    (Number(task.place !== before.place) << 16) |
    (Number(task.result !== before.result) << 17) |
    (Number(task.replays !== before.replays) << 18) |
    (Number(task.cancelMs !== before.cancelMs) << 19) |
    (Number(task.extras !== before.extras) << 20) |
    (Number(task.repairs !== before.repairs) << 21) |
    (Number(task.trail !== before.trail) << 22)
  );
}

/** Writes the difference to `before`, or to a blank task; returns the end of the record. */
export function writeTask(
  buffer: Buffer,
  start: number,
  task: Task,
  before: Task = blankTask,
): number {
  let at = start + headBytes;
  const which = changedColumns(task, before);
  for (let left = which; left !== 0; left &= left - 1) {
    const { of, write } = list[31 - Math.clz32(left & -left)] as Column<unknown>;
    at = write(buffer, at, of(task));
  }
  buffer[start] = recordVersion;
  buffer[start + 1] = which;
  buffer[start + 2] = which >>> 8;
  buffer[start + 3] = which >>> 16;
  buffer[start + 4] = which >>> 24;
  return at;
}

/**
 * Applies a record to `before`, or to a blank task; undefined when the record cannot be read, also when
 * it is a difference and there is no task that it applies to.
 */
export function readTask(
  record: { readonly buffer: Buffer; readonly start: number; readonly end: number },
  id: TaskId,
  before: Task = blankTask,
): Task | undefined {
  const reader = new ByteReader(record.buffer, record.start, record.end);
  const task: Record<string, unknown> = { ...before, id };
  try {
    if (reader.byte() !== recordVersion) return undefined;
    let which = reader.byte() + reader.byte() * 0x100 + reader.byte() * 0x1_0000;
    which += reader.byte() * 0x100_0000;
    for (let position = 0; position < list.length; position++) {
      if (((which >>> position) & 1) === 0) continue;
      task[names[position] as string] = list[position]?.read(reader);
    }
    // Every whole task has at least one attempt; a difference without its task has none.
    const isWhole = reader.isAtEnd && which < 2 ** list.length && task["maxAttempts"] !== 0;
    return isWhole ? (task as unknown as Task) : undefined;
  } catch (error) {
    if (error instanceof DamagedBytes) return undefined;
    throw error;
  }
}

function writePayload(buffer: Buffer, at: number, payload: string | undefined): number {
  buffer[at] = payload === undefined ? 0 : 1;
  return payload === undefined ? at + 1 : writeText(buffer, at + 1, payload);
}

/** Whether a value follows; throws for a mark other than 0 and 1. */
function isThere(reader: ByteReader): boolean {
  const mark = reader.byte();
  if (mark > 1)
    throw new DamagedBytes(`${mark} says neither that there is one nor that there is none`);
  return mark === 1;
}

const placeKinds = {
  ready: 1,
  delayed: 2,
  leased: 3,
  dead: 4,
  completed: 5,
  failed: 6,
  deadForEver: 7,
  /** A lease that was extended or shortened. */
  leasedSince: 8,
} as const;

function writePlace(buffer: Buffer, at: number, place: Place): number {
  switch (place.in) {
    case "ready":
      buffer[at] = placeKinds.ready;
      return writeNumber(buffer, at + 1, place.seq);
    case "delayed":
      buffer[at] = placeKinds.delayed;
      return writeNumber(buffer, at + 1, place.dueMs);
    case "leased": {
      const isAsClaimed = place.sinceMs === place.untilMs - place.leaseMs;
      buffer[at] = isAsClaimed ? placeKinds.leased : placeKinds.leasedSince;
      let end = writeNumber(buffer, at + 1, place.untilMs);
      end = writeNumber(buffer, end, place.leaseMs);
      if (!isAsClaimed) end = writeNumber(buffer, end, place.sinceMs);
      return writeText(buffer, end, place.workerId);
    }
    case "dead": {
      const { atMs, expiresMs } = place;
      buffer[at] = expiresMs === undefined ? placeKinds.deadForEver : placeKinds.dead;
      const end = writeNumber(buffer, at + 1, atMs);
      return expiresMs === undefined ? end : writeNumber(buffer, end, expiresMs);
    }
    case "done": {
      buffer[at] = placeKinds[place.how];
      let end = writeNumber(buffer, at + 1, place.atMs);
      end = writeNumber(buffer, end, place.expiresMs);
      end = writeSpan(buffer, end, place.startedMs, place.atMs);
      return writeText(buffer, end, place.workerId);
    }
  }
}

function readPlace(reader: ByteReader): Place {
  const kind = reader.byte();
  switch (kind) {
    case placeKinds.ready:
      return { in: "ready", seq: reader.number() };
    case placeKinds.delayed:
      return { in: "delayed", dueMs: reader.number() };
    case placeKinds.leased:
    case placeKinds.leasedSince: {
      const untilMs = reader.number();
      const leaseMs = reader.number();
      const sinceMs = kind === placeKinds.leased ? untilMs - leaseMs : reader.number();
      return { in: "leased", workerId: reader.text() as WorkerId, untilMs, leaseMs, sinceMs };
    }
    case placeKinds.dead: {
      const atMs = reader.number();
      return { in: "dead", atMs, expiresMs: reader.number() };
    }
    case placeKinds.deadForEver:
      return { in: "dead", atMs: reader.number(), expiresMs: undefined };
    case placeKinds.completed:
    case placeKinds.failed: {
      const how = kind === placeKinds.completed ? "completed" : "failed";
      const atMs = reader.number();
      const expiresMs = reader.number();
      const startedMs = readSpan(reader, atMs);
      return { in: "done", how, workerId: reader.text() as WorkerId, startedMs, atMs, expiresMs };
    }
    default:
      throw new DamagedBytes(`no place is called ${kind}`);
  }
}

function roomOfPlace(place: Place): number {
  return numberBytesMax * 4 + roomOfText("workerId" in place ? place.workerId : "");
}

/** The length of a span, which takes few bytes; after a clock was set back, 0 and the start of the span. */
function writeSpan(buffer: Buffer, at: number, fromMs: number, toMs: number): number {
  if (fromMs <= toMs) return writeNumber(buffer, at, toMs - fromMs + 1);
  return writeNumber(buffer, writeNumber(buffer, at, 0), fromMs);
}

function readSpan(reader: ByteReader, toMs: number): number {
  const span = reader.number();
  return span === 0 ? reader.number() : toMs - span + 1;
}

function roomOfResult(result: ResultBody): number {
  let bytes = 1 + numberBytesMax + roomOfText(result.json);
  for (const { name, url, sha256 = "", contentType = "" } of result.artifacts) {
    bytes += numberBytesMax;
    for (const each of [name, url, sha256, contentType]) bytes += roomOfText(each);
  }
  return bytes;
}

function writeResult(buffer: Buffer, at: number, result: ResultBody | undefined): number {
  buffer[at] = result === undefined ? 0 : 1;
  if (result === undefined) return at + 1;
  let end = writeText(buffer, at + 1, result.json);
  end = writeNumber(buffer, end, result.artifacts.length);
  for (const { name, url, bytes = 0, sha256 = "", contentType = "" } of result.artifacts) {
    end = writeText(buffer, end, name);
    end = writeText(buffer, end, url);
    end = writeText(buffer, end, sha256);
    if (sha256 === "") continue;
    end = writeNumber(buffer, end, bytes);
    end = writeText(buffer, end, contentType);
  }
  return end;
}

function readResult(reader: ByteReader): ResultBody | undefined {
  if (!isThere(reader)) return undefined;
  const json = reader.text();
  const artifacts: Artifact[] = [];
  for (let left = reader.number(); left > 0; left--) {
    const link = { name: reader.text(), url: reader.text() };
    const sha256 = reader.text();
    if (sha256 === "") artifacts.push(link);
    else artifacts.push({ ...link, bytes: reader.number(), sha256, contentType: reader.text() });
  }
  return { json, artifacts };
}

function roomOfExtras(extras: TaskExtras): number {
  return 1 + numberBytesMax * 4 + extras.tags.reduce((sum, tag) => sum + roomOfText(tag), 0);
}

function writeExtras(buffer: Buffer, at: number, extras: TaskExtras | undefined): number {
  buffer[at] = extras === undefined ? 0 : 1;
  if (extras === undefined) return at + 1;
  let end = writeNumber(buffer, at + 1, extras.tags.length);
  for (const tag of extras.tags) end = writeText(buffer, end, tag);
  end = writeNumber(buffer, end, extras.timeoutMs);
  end = writeNumber(buffer, end, extras.ttlMs);
  return writeNumber(buffer, end, extras.startByMs);
}

function readExtras(reader: ByteReader): TaskExtras | undefined {
  if (!isThere(reader)) return undefined;
  const tags: string[] = [];
  for (let left = reader.number(); left > 0; left--) tags.push(reader.text());
  const timeoutMs = reader.number();
  const ttlMs = reader.number();
  return { tags, timeoutMs, ttlMs, startByMs: reader.number() };
}

function roomOfRepairs(repairs: TaskRepairs): number {
  const { replayOf, replayedAs, job } = repairs;
  return 2 + roomOfText(replayOf) + roomOfText(replayedAs) + roomOfText(job);
}

function writeRepairs(buffer: Buffer, at: number, repairs: TaskRepairs | undefined): number {
  buffer[at] = repairs === undefined ? 0 : 1;
  if (repairs === undefined) return at + 1;
  buffer[at + 1] = Number(repairs.isCopy);
  const end = writeText(buffer, writeText(buffer, at + 2, repairs.replayOf), repairs.replayedAs);
  return writeText(buffer, end, repairs.job);
}

function readRepairs(reader: ByteReader): TaskRepairs | undefined {
  if (!isThere(reader)) return undefined;
  const isCopy = isThere(reader);
  const replayOf = reader.text() as TaskId;
  const replayedAs = reader.text() as TaskId;
  return { replayOf, replayedAs, isCopy, job: reader.text() };
}

function roomOfTrail(trail: Trail): number {
  let bytes = 1 + numberBytesMax;
  for (const { workerId, error } of trail.attempts) {
    bytes += 1 + numberBytesMax * 4 + roomOfText(workerId) + roomOfText(error);
  }
  bytes += 1 + numberBytesMax * 3 + roomOfText(trail.progress?.text ?? "");
  for (const { text } of trail.logs) bytes += numberBytesMax + roomOfText(text);
  return bytes;
}

function writeTrail(buffer: Buffer, at: number, trail: Trail | undefined): number {
  buffer[at] = trail === undefined ? 0 : 1;
  if (trail === undefined) return at + 1;
  let end = writeNumber(buffer, at + 1, trail.attempts.length);
  for (const each of trail.attempts) {
    end = writeText(buffer, end, each.workerId);
    end = writeNumber(buffer, end, each.leaseToken);
    end = writeNumber(buffer, end, each.startedMs);
    end = writeNumber(buffer, end, each.endedMs);
    buffer[end] = comebacks.indexOf(each.outcome);
    end = writeText(buffer, end + 1, each.error);
    end = writeNumber(buffer, end, each.delayMs);
  }
  return writeLogs(buffer, writeProgress(buffer, end, trail.progress), trail.logs);
}

function writeProgress(buffer: Buffer, at: number, progress: Progress | undefined): number {
  buffer[at] = progress === undefined ? 0 : 1;
  if (progress === undefined) return at + 1;
  const end = writeNumber(buffer, writeNumber(buffer, at + 1, progress.percent), progress.atMs);
  return writeText(buffer, end, progress.text);
}

function writeLogs(buffer: Buffer, at: number, logs: readonly LogLine[]): number {
  let end = writeNumber(buffer, at, logs.length);
  for (const { atMs, text } of logs) end = writeText(buffer, writeNumber(buffer, end, atMs), text);
  return end;
}

function readProgress(reader: ByteReader): Progress | undefined {
  if (!isThere(reader)) return undefined;
  const percent = reader.number();
  const atMs = reader.number();
  return { percent, text: reader.text(), atMs };
}

function readLogs(reader: ByteReader): readonly LogLine[] {
  const logs: LogLine[] = [];
  for (let left = reader.number(); left > 0; left--) {
    const atMs = reader.number();
    logs.push({ atMs, text: reader.text() });
  }
  return logs;
}

function readTrail(reader: ByteReader): Trail | undefined {
  if (!isThere(reader)) return undefined;
  const attempts: PastAttempt[] = [];
  for (let left = reader.number(); left > 0; left--) attempts.push(readAttempt(reader));
  const progress = readProgress(reader);
  return { attempts, progress, logs: readLogs(reader) };
}

function readAttempt(reader: ByteReader): PastAttempt {
  const workerId = reader.text() as WorkerId;
  const leaseToken = reader.number();
  const startedMs = reader.number();
  const endedMs = reader.number();
  const outcome = comebacks[reader.byte()];
  if (outcome === undefined) throw new DamagedBytes("an attempt ended in no known way");
  const error = reader.text();
  return { workerId, leaseToken, startedMs, endedMs, outcome, error, delayMs: reader.number() };
}

/** The bytes of a result that has a key of its own. */
export function encodeResult(result: ResultBody): Buffer {
  const buffer = Buffer.alloc(roomOfResult(result));
  return buffer.subarray(0, writeResult(buffer, 0, result));
}

export function decodeResult(bytes: Buffer): ResultBody | undefined {
  const reader = new ByteReader(bytes, 0, bytes.length);
  try {
    const result = readResult(reader);
    return reader.isAtEnd ? result : undefined;
  } catch (error) {
    if (error instanceof DamagedBytes) return undefined;
    throw error;
  }
}
