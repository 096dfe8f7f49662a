/**
 * Every index key of a task is a function of its record: where it is decides which index it is in.
 * A change tells the engine the task before and after, which writes the difference between their index
 * keys, so a task is always in exactly the indexes its record says, whatever the transition was.
 */
import { create, type Indexing, type KvRange, type Op, put, remove } from "@codeq/engine";
import { expiresMsOf, queueOf, type Task } from "@codeq/queue";
import {
  deadPrefix,
  delayedPrefix,
  endOf,
  idempotencyKeyOf,
  inProgressPrefix,
  parseIndexKey,
  payloadKey,
  pendingPrefix,
  queuePrefix,
  queuesPrefix,
  resultKey,
  retentionKey,
  retentionPrefix,
  sortable,
  taskKey,
  tasksPrefix,
} from "./keys.ts";
import { decodeIndexed, encodeTask, type IndexedTask, isShort } from "./task-codec.ts";

/** The rows of the engine are tasks; their index keys are never written by hand. */
export const taskIndexing: Indexing = {
  prefix: tasksPrefix,
  rowOf: decodeIndexed,
  rowsIn: (range) => tasksIn(range) as ReturnType<Indexing["rowsIn"]>,
  keysOf: (row) => keysOf(row as IndexedTask),
  valueOf: (row) => ownerOf((row as IndexedTask).tenantId),
};

const indexPattern = /^codeq\/q\/[^/]+\/[^/]+\/(?:pending|inprog|delayed|dlq)\//;
const places = { pending: "ready", inprog: "leased", delayed: "delayed", dlq: "dead" } as const;

/** Which tasks may have an index key in the range; undefined when none has. */
function tasksIn({ after, before }: KvRange): ((task: IndexedTask) => boolean) | undefined {
  const isBelow = (prefix: string): boolean =>
    after.startsWith(prefix) && before.startsWith(prefix);
  const touches = (prefix: string): boolean => after < endOf(prefix) && before > prefix;
  if (isBelow(retentionPrefix)) {
    // Not a number when the range has no such end.
    const lastMs = Number.parseInt(before.slice(retentionPrefix.length), 16);
    return (task) => {
      const expiresMs = expiresMsOf(task);
      return expiresMs !== undefined && !(expiresMs > lastMs);
    };
  }
  if (!touches(retentionPrefix) && !touches(queuesPrefix)) return undefined;
  const index = indexPattern.exec(after)?.[0];
  if (index === undefined || !isBelow(index)) return () => true;
  const { queue, tenantId, kind } = parseIndexKey(index);
  const where = places[kind];
  return ({ place, tenantId: owner, command }) =>
    place.in === where && owner === tenantId && queueOf(command) === queue;
}

/** The index keys of a task, without its record, payload, result and idempotency key. */
export function keysOf(task: IndexedTask): string[] {
  const place = placeKey(task);
  const expiresMs = expiresMsOf(task);
  if (expiresMs === undefined) return [place];
  const expiry = retentionKey(expiresMs, task.id);
  return place === "" ? [expiry] : [place, expiry];
}

const lastOwner = { text: "", bytes: Buffer.alloc(0) };

/** Tells whose task it is, so that a tenant's clean-up need not load foreign records. */
function ownerOf(tenantId: string): Buffer {
  if (lastOwner.text !== tenantId) {
    lastOwner.text = tenantId;
    lastOwner.bytes = Buffer.from(tenantId);
  }
  return lastOwner.bytes;
}

/** The one queue index the task is in; empty when it is done. */
function placeKey(task: IndexedTask): string {
  const prefix = queuePrefix(queueOf(task.command), task.tenantId);
  const { place } = task;
  switch (place.in) {
    case "ready":
      return `${pendingPrefix(prefix, task.priority)}${sortable(place.seq)}/${task.id}`;
    case "delayed":
      return `${delayedPrefix(prefix)}${sortable(place.dueMs)}/${task.id}`;
    case "leased":
      return inProgressPrefix(prefix) + task.id;
    case "dead":
      return deadPrefix(prefix) + task.id;
    case "done":
      return "";
  }
}

/** Adds the writes that turn the task from `before` into `after`, with its result when it is short. */
export function addChange(ops: Op[], before: Task | undefined, after: Task, result = ""): void {
  const key = taskKey(after.id);
  const record = encodeTask(after, result);
  ops.push(before === undefined ? create(key, record, after) : put(key, record, after, before));
}

/** Adds the writes of a task that was not there before. */
export function addNewTask(ops: Op[], task: Task, payload: string): void {
  addChange(ops, undefined, task);
  if (task.payload === undefined) ops.push(create(payloadKey(task.id), payload));
}

/** Adds the writes that end a task: its terminal record and its encoded result. */
export function addEnd(ops: Op[], before: Task, end: { task: Task; result: string }): void {
  const travels = isShort(end.result);
  addChange(ops, before, end.task, travels ? end.result : "");
  if (!travels) ops.push(create(resultKey(end.task.id), end.result));
}

/** Adds the writes that leave nothing of the task behind. */
export function addRemoval(ops: Op[], task: Task): void {
  // Whether the result has a key of its own only the text of the record tells.
  ops.push(remove(taskKey(task.id), task), remove(resultKey(task.id)));
  if (task.payload === undefined) ops.push(remove(payloadKey(task.id)));
  if (task.idempotencyKey !== "") {
    ops.push(remove(idempotencyKeyOf(task.tenantId, task.idempotencyKey)));
  }
}
