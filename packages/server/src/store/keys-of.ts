/**
 * Every index key of a task is a function of its record: where it is decides which index it is in.
 * A change writes the difference between the keys before and after, so a task is always in exactly
 * the indexes its record says, whatever the transition was.
 */
import { create, type Op, put, remove } from "@codeq/engine";
import { expiresMsOf, queueOf, type Task, type TenantId } from "@codeq/queue";
import {
  deadPrefix,
  delayedPrefix,
  idempotencyKeyOf,
  inProgressPrefix,
  payloadKey,
  pendingPrefix,
  queuePrefix,
  resultKey,
  retentionKey,
  sortable,
  taskKey,
} from "./keys.ts";
import { encodeTask, isShort } from "./task-codec.ts";

/** The index keys of a task, without its record, payload, result and idempotency key. */
export function keysOf(task: Task): string[] {
  return [placeKey(task), expiryKey(task)].filter((key) => key !== "");
}

/** Empty while it is not known when the task may be deleted. */
function expiryKey(task: Task): string {
  const expiresMs = expiresMsOf(task);
  return expiresMs === undefined ? "" : retentionKey(expiresMs, task.id);
}

/** The one queue index the task is in; empty when it is done. */
function placeKey(task: Task): string {
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
  const record = encodeTask(after, result);
  ops.push(
    before === undefined ? create(taskKey(after.id), record) : put(taskKey(after.id), record),
  );
  const { tenantId } = after;
  addMove(ops, before === undefined ? "" : placeKey(before), { to: placeKey(after), tenantId });
  addMove(ops, before === undefined ? "" : expiryKey(before), { to: expiryKey(after), tenantId });
}

/** The value tells whose it is, so that a tenant's clean-up need not load foreign records. */
function addMove(ops: Op[], from: string, move: { to: string; tenantId: TenantId }): void {
  if (from === move.to) return;
  if (from !== "") ops.push(remove(from));
  if (move.to !== "") ops.push(create(move.to, move.tenantId));
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
  ops.push(remove(taskKey(task.id)), remove(resultKey(task.id)));
  if (task.payload === undefined) ops.push(remove(payloadKey(task.id)));
  for (const key of keysOf(task)) ops.push(remove(key));
  if (task.idempotencyKey !== "") {
    ops.push(remove(idempotencyKeyOf(task.tenantId, task.idempotencyKey)));
  }
}
