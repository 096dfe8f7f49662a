/**
 * Tasks as rows of the engine. Every index key of a task is a function of its record: the place of the task decides
 * which indexes it is in. The engine writes the difference between the index keys before and after a change, so a
 * task is always in exactly the indexes that its record implies, whatever the transition was.
 */
import type { KvRange, Row, RowCodec } from "@codeq/engine";
import {
  expiresMsOf,
  isFailure,
  isLive,
  laneOf,
  queueOf,
  startByMsOf,
  type Task,
  type TaskBatch,
  type TaskId,
  type TaskSchedule,
} from "@codeq/queue";
import { groupOfTask } from "../records/failure-fingerprint.ts";
import {
  batchFailedPrefix,
  batchMembersPrefix,
  deadPrefix,
  delayedPrefix,
  endOf,
  failedOfBatch,
  failedPrefix,
  failuresIn,
  failuresOf,
  failuresPrefix,
  failureTimesOf,
  failureTimesPrefix,
  heldPrefix,
  inProgressPrefix,
  lanePrefix,
  liveOfSchedule,
  membersOfBatch,
  parseIndexKey,
  pendingPrefix,
  queuePrefix,
  queuesPrefix,
  retentionKey,
  retentionPrefix,
  runsOfSchedule,
  scheduleLivePrefix,
  scheduleRunsPrefix,
  sortable,
  startByKey,
  startByPrefix,
  tasksPrefix,
} from "./keys.ts";
import { readTask, taskBytesMax, writeTask } from "./task-codec.ts";

export const taskRows: RowCodec = {
  prefix: tasksPrefix,
  idOf: (row) => (row as Task).id,
  bytesMaxOf: (row) => taskBytesMax(row as Task),
  write: (buffer, at, row, before) =>
    writeTask(buffer, at, row as Task, before as Task | undefined),
  read: (buffer, start, end, id, before) =>
    readTask({ buffer, start, end }, id as TaskId, before as Task | undefined),
  rowsIn: (range) => tasksIn(range) as ((row: Row) => boolean) | undefined,
  keysOf: (row) => keysOf(row as Task),
  isIndexKey: (key) =>
    key.startsWith(queuesPrefix) ||
    key.startsWith(retentionPrefix) ||
    key.startsWith(failuresPrefix) ||
    key.startsWith(failureTimesPrefix) ||
    key.startsWith(startByPrefix) ||
    schedulePrefixes.some((prefix) => key.startsWith(prefix)) ||
    batchPrefixes.some((prefix) => key.startsWith(prefix)),
  valueOf: (row) => ownerOf((row as Task).tenantId),
};

/** The fields that the index keys of a task are derived from. */
type IndexedTask = Pick<
  Task,
  | "id"
  | "tenantId"
  | "command"
  | "priority"
  | "place"
  | "extras"
  | "error"
  | "schedule"
  | "batch"
  | "lane"
>;

const schedulePrefixes = [scheduleRunsPrefix, scheduleLivePrefix];
const batchPrefixes = [batchMembersPrefix, batchFailedPrefix];

const indexPattern = /^codeq\/q\/[^/]+\/[^/]+\/(?:pending|inprog|delayed|held|dlq|failed)\//;
const bucketPattern = /^codeq\/q\/[^/]+\/[^/]+\/pending\/(?:l\/[^/]+\/)?\d\//;
/** Ranges below a lane never leave it. */
const lanePattern = /^codeq\/q\/[^/]+\/[^/]+\/pending\/l\/[^/]+\//;
const places = {
  pending: "ready",
  inprog: "leased",
  delayed: "delayed",
  held: "held",
  dlq: "dead",
  failed: "done",
} as const;

/** Indexes by time, which few tasks are in. */
const moments = [
  [retentionPrefix, expiresMsOf],
  [startByPrefix, startByMsOf],
] as const;

/** A filter for tasks that may have an index key in the range; undefined when none has. */
function tasksIn({ after, before }: KvRange): ((task: IndexedTask) => boolean) | undefined {
  const isBelow = (prefix: string): boolean =>
    after.startsWith(prefix) && before.startsWith(prefix);
  const touches = (prefix: string): boolean => after < endOf(prefix) && before > prefix;
  for (const [prefix, momentOf] of moments) {
    if (!isBelow(prefix)) continue;
    // Not a number when the range has no such end.
    const lastMs = Number.parseInt(before.slice(prefix.length), 16);
    return (task) => {
      const ms = momentOf(task);
      return ms !== undefined && !(ms > lastMs);
    };
  }
  if (isBelow(failuresPrefix) || isBelow(failureTimesPrefix)) {
    const { tenantId, group } = failuresIn(after);
    return (task) => isFailure(task) && task.tenantId === tenantId && groupOfTask(task) === group;
  }
  if (schedulePrefixes.some(isBelow)) return ({ schedule }) => schedule !== undefined;
  if (batchPrefixes.some(isBelow)) return ({ batch }) => batch !== undefined;
  const others = [failuresPrefix, failureTimesPrefix, ...schedulePrefixes, ...batchPrefixes];
  if (others.some(touches)) return () => true;
  if (!touches(queuesPrefix) && !moments.some(([prefix]) => touches(prefix))) return undefined;
  const index = indexPattern.exec(after)?.[0];
  if (index === undefined || !isBelow(index)) return () => true;
  const { queue, tenantId, kind } = parseIndexKey(index);
  const where = places[kind];
  const isOfOneLane = kind === "pending" && lanePattern.test(after);
  const lane = isOfOneLane ? parseIndexKey(after).lane : undefined;
  const bucket = bucketPattern.exec(after)?.[0] ?? "";
  const [first, last] = [after, before].map((end) =>
    bucket !== "" && isBelow(bucket) ? Number.parseInt(end.slice(bucket.length), 16) : Number.NaN,
  ) as [number, number];
  return (task) =>
    task.place.in === where &&
    // Not numbers where the range has no such end.
    !(task.place.in === "ready" && (task.place.seq < first || task.place.seq > last)) &&
    task.tenantId === tenantId &&
    queueOf(task.command) === queue &&
    (lane === undefined || laneOf(task) === lane);
}

/** The index keys of a task, without its record, payload, result and idempotency key. */
export function keysOf(task: IndexedTask): string[] {
  const keys = plainKeysOf(task);
  if (task.schedule !== undefined) keys.push(...scheduleKeysOf(task, task.schedule));
  if (task.batch?.isCallback === false) keys.push(...batchKeysOf(task, task.batch));
  return keys;
}

/** One key of a member stays as long as the member, so that the end of most members moves none. */
function batchKeysOf(task: IndexedTask, { id }: TaskBatch): string[] {
  const member = membersOfBatch(task.tenantId, id) + task.id;
  return isFailure(task) ? [member, failedOfBatch(task.tenantId, id) + task.id] : [member];
}

function scheduleKeysOf(task: IndexedTask, { id, forMs }: TaskSchedule): string[] {
  const run = `${runsOfSchedule(task.tenantId, id)}${sortable(forMs)}/${task.id}`;
  return isLive(task) ? [run, liveOfSchedule(task.tenantId, id) + task.id] : [run];
}

function plainKeysOf(task: IndexedTask): string[] {
  const place = placeKey(task);
  const expiresMs = expiresMsOf(task);
  if (expiresMs === undefined) {
    if (isFailure(task)) return [place, ...failureKeys(task)];
    const startByMs = task.extras === undefined ? undefined : startByMsOf(task);
    if (startByMs !== undefined) return [place, startByKey(startByMs, task.id)];
    return place === "" ? [] : [place];
  }
  const expiry = retentionKey(expiresMs, task.id);
  return place === "" ? [expiry] : [place, ...failureKeys(task), expiry];
}

const lastOwner = { text: "", bytes: Buffer.alloc(0) };

/** The tenant of the task, so that a tenant's clean-up need not load records of other tenants. */
function ownerOf(tenantId: string): Buffer {
  if (lastOwner.text !== tenantId) {
    lastOwner.text = tenantId;
    lastOwner.bytes = Buffer.from(tenantId);
  }
  return lastOwner.bytes;
}

function failureKeys(task: IndexedTask): string[] {
  const { tenantId, command, id, place } = task;
  const of = { tenantId, group: groupOfTask(task), queue: queueOf(command) };
  const atMs = place.in === "dead" || place.in === "done" ? place.atMs : 0;
  return [failuresOf(of) + id, `${failureTimesOf(of)}${sortable(atMs)}/${id}`];
}

function readyPrefix(prefix: string, task: IndexedTask): string {
  const lane = laneOf(task);
  return lane === ""
    ? pendingPrefix(prefix, task.priority)
    : lanePrefix(prefix, lane, task.priority);
}

/** The one queue index the task is in; empty when it completed or was cancelled. */
function placeKey(task: IndexedTask): string {
  const prefix = queuePrefix(queueOf(task.command), task.tenantId);
  const { place } = task;
  switch (place.in) {
    case "ready":
      return `${readyPrefix(prefix, task)}${sortable(place.seq)}/${task.id}`;
    case "delayed":
      return `${delayedPrefix(prefix)}${sortable(place.dueMs)}/${task.id}`;
    case "held":
      return heldPrefix(prefix) + task.id;
    case "leased":
      return inProgressPrefix(prefix) + task.id;
    case "dead":
      return deadPrefix(prefix) + task.id;
    case "done":
      return place.how === "failed" ? failedPrefix(prefix) + task.id : "";
  }
}
