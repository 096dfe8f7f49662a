/**
 * Tasks as bytes. A record is the difference between two states of a task: which columns differ, then their values.
 * The log holds every change like this; the kv holds the difference to a blank task.
 *
 *   record = version u8, which columns u32, the value of each
 *
 * To add a field, add it to the blank task and add a column at the end: records that lack the column have the
 * blank value. Bytes that cannot be decoded give undefined, and the caller quarantines them.
 */
import {
  type Artifact,
  type BatchEnd,
  comebacks,
  type LogLine,
  type PastAttempt,
  type Place,
  type Progress,
  type ResultBody,
  scheduledKinds,
  type Task,
  type TaskBatch,
  type TaskExtras,
  type TaskId,
  type TaskLane,
  type TaskRepairs,
  type TaskSchedule,
  type TaskUnique,
  type TenantId,
  type Trail,
  uniqueWhiles,
  type WorkerId,
} from "@codeq/queue";
import { ByteReader, DamagedBytes, numberBytesMax, writeNumber, writeText } from "./bytes.ts";
import {
  type Codec,
  columns,
  encode,
  flag,
  list,
  number,
  oneOf,
  optional,
  struct,
  text,
} from "./codec.ts";

const recordVersion = 1;
const headBytes = 5;

/** A link, or a file that the server keeps, which has a hash. */
const artifact: Codec<Artifact> = {
  bytesMax: ({ name, url, sha256 = "", contentType = "" }) => {
    const texts =
      text.bytesMax(name) + text.bytesMax(url) + text.bytesMax(sha256) + text.bytesMax(contentType);
    return texts + numberBytesMax;
  },
  write: (buffer, at, { name, url, bytes = 0, sha256 = "", contentType = "" }) => {
    const end = writeText(buffer, writeText(buffer, writeText(buffer, at, name), url), sha256);
    return sha256 === "" ? end : writeText(buffer, writeNumber(buffer, end, bytes), contentType);
  },
  read: (from) => {
    const link = { name: from.text(), url: from.text() };
    const sha256 = from.text();
    if (sha256 === "") return link;
    return { ...link, bytes: from.number(), sha256, contentType: from.text() };
  },
};

export const resultBody: Codec<ResultBody> = struct({ json: text, artifacts: list(artifact) });

export const taskExtras: Codec<TaskExtras> = struct({
  tags: list(text),
  timeoutMs: number,
  ttlMs: number,
  startByMs: number,
});

const repairs = struct<TaskRepairs>({
  isCopy: flag,
  replayOf: text,
  replayedAs: text,
  job: text,
});

const trail = struct<Trail>({
  attempts: list(
    struct<PastAttempt>({
      workerId: text,
      leaseToken: number,
      startedMs: number,
      endedMs: number,
      outcome: oneOf(comebacks),
      error: text,
      delayMs: number,
      stack: text,
    }),
  ),
  progress: optional(struct<Progress>({ percent: number, atMs: number, text })),
  logs: list(struct<LogLine>({ atMs: number, text })),
});

const schedule = struct<TaskSchedule>({
  id: text,
  forMs: number,
  kind: oneOf(scheduledKinds),
});

const lane = struct<TaskLane>({ name: text, cost: number, holds: number, seq: number });

const unique = struct<TaskUnique>({
  key: text,
  while: oneOf(uniqueWhiles),
  forMs: number,
  replaced: number,
  sinceMs: number,
  isHeld: flag,
  dueMs: number,
});

const batch = struct<TaskBatch>({
  id: text,
  isCallback: flag,
  ended: optional(struct<BatchEnd>({ succeeded: number, failed: number, cancelled: number })),
});

/** Has the same hidden class as every other task, so that tasks from the store stay fast to use. */
const blankTask: Task = {
  id: "" as TaskId,
  tenantId: "" as TenantId,
  command: "",
  priority: 0,
  webhook: "",
  traceParent: "",
  traceState: "",
  idempotencyKey: "",
  payload: undefined,
  maxAttempts: 0,
  attempts: 0,
  handBacks: 0,
  replays: 0,
  cancelMs: 0,
  leaseToken: 0,
  error: "",
  createdMs: 0,
  updatedMs: 0,
  storedBytes: 0,
  place: { in: "ready", seq: 0 },
  result: undefined,
  extras: undefined,
  repairs: undefined,
  trail: undefined,
  schedule: undefined,
  unique: undefined,
  batch: undefined,
  lane: undefined,
};

/** The position of a column is stored: add new columns at the end only. */
const taskColumns = columns<Task>(
  {
    tenantId: text,
    command: text,
    priority: number,
    webhook: text,
    traceParent: text,
    traceState: text,
    idempotencyKey: text,
    payload: optional(text),
    maxAttempts: number,
    attempts: number,
    handBacks: number,
    leaseToken: number,
    error: text,
    createdMs: number,
    updatedMs: number,
    storedBytes: number,
    place: {
      bytesMax: (place) =>
        numberBytesMax * 4 + text.bytesMax("workerId" in place ? place.workerId : ""),
      write: writePlace,
      read: readPlace,
    },
    result: optional(resultBody),
    replays: number,
    cancelMs: number,
    extras: optional(taskExtras),
    repairs: optional(repairs),
    trail: optional(trail),
    schedule: optional(schedule),
    unique: optional(unique),
    batch: optional(batch),
    lane: optional(lane),
  },
  blankTask,
);

/** At least as many bytes as `writeTask` takes. */
export function taskBytesMax(task: Task): number {
  return headBytes + taskColumns.bytesMax(task);
}

/** Writes the difference to `before`, or to a blank task; returns the end of the record. */
export function writeTask(
  buffer: Buffer,
  start: number,
  task: Task,
  before: Task = blankTask,
): number {
  const which = taskColumns.changed(task, before);
  buffer[start] = recordVersion;
  buffer.writeUInt32LE(which, start + 1);
  return taskColumns.write(buffer, start + headBytes, task, which);
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
  return wholeOf(record, (from) => readRecord(from, id, before));
}

function readRecord(from: ByteReader, id: TaskId, before: Task): Task {
  const version = from.byte();
  const which = from.byte() | (from.byte() << 8) | (from.byte() << 16) | (from.byte() << 24);
  const isKnown = version === recordVersion && which >= 0 && which < 2 ** taskColumns.count;
  if (!isKnown) throw new DamagedBytes(`no record of version ${version} has the columns ${which}`);
  const task = taskColumns.read(from, id, which, before);
  // Every whole task has at least one attempt; a difference without its task has none.
  if (task.maxAttempts === 0)
    throw new DamagedBytes("a change without the task that it applies to");
  return task;
}

/** A task with its id, for messages. */
export const wholeTask: Codec<Task> = {
  bytesMax: (task) => text.bytesMax(task.id) + taskBytesMax(task),
  write: (buffer, at, task) => writeTask(buffer, writeText(buffer, at, task.id), task),
  read: (from) => readRecord(from, from.text() as TaskId, blankTask),
};

const storedResult = optional(resultBody);

/** The bytes of a result that has a key of its own. */
export function encodeResult(result: ResultBody): Buffer {
  return encode(storedResult, result);
}

export function decodeResult(bytes: Buffer): ResultBody | undefined {
  return wholeOf({ buffer: bytes, start: 0, end: bytes.length }, storedResult.read);
}

/** Undefined for bytes that cannot be read, or of which some are left. */
function wholeOf<Value>(
  { buffer, start, end }: Parameters<typeof readTask>[0],
  read: (from: ByteReader) => Value,
): Value | undefined {
  const from = new ByteReader(buffer, start, end);
  try {
    const value = read(from);
    return from.isAtEnd ? value : undefined;
  } catch (error) {
    if (error instanceof DamagedBytes) return undefined;
    throw error;
  }
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
  cancelled: 9,
  held: 10,
} as const;

const howOf = {
  [placeKinds.completed]: "completed",
  [placeKinds.failed]: "failed",
  [placeKinds.cancelled]: "cancelled",
} as const;

function writePlace(buffer: Buffer, at: number, place: Place): number {
  switch (place.in) {
    case "ready":
      buffer[at] = placeKinds.ready;
      return writeNumber(buffer, at + 1, place.seq);
    case "delayed":
      buffer[at] = placeKinds.delayed;
      return writeNumber(buffer, at + 1, place.dueMs);
    case "held":
      buffer[at] = placeKinds.held;
      return at + 1;
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
    case placeKinds.held:
      return { in: "held" };
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
    case placeKinds.failed:
    case placeKinds.cancelled: {
      const how = howOf[kind];
      const atMs = reader.number();
      const expiresMs = reader.number();
      const startedMs = readSpan(reader, atMs);
      return { in: "done", how, workerId: reader.text() as WorkerId, startedMs, atMs, expiresMs };
    }
    default:
      throw new DamagedBytes(`no place is called ${kind}`);
  }
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
