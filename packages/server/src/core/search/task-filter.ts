/** Filters of task lists. All given conditions must hold. A filter travels to shards as JSON. */
import type { taskPlaces } from "@codeq/protocol/api";
import { isFailure, laneOf, queueOf, type Task } from "@codeq/queue";
import { groupOfTask } from "../records/failure-fingerprint.ts";

/** The place of a task; tasks that have ended are `dead`, `done`, `failed` or `cancelled`. */
export type TaskPlace = (typeof taskPlaces)[number];

export interface TaskFilter {
  /** The queue's name: the command in lower case. */
  readonly queue?: string | undefined;
  /** `failure` stands for dead letters and failed tasks. */
  readonly place?: TaskPlace | "failure" | undefined;
  readonly priority?: number | undefined;
  /** The worker that has the task, or that finished it. */
  readonly worker?: string | undefined;
  /** The first moment, and the first moment after. */
  readonly createdFromMs?: number | undefined;
  readonly createdToMs?: number | undefined;
  readonly endedFromMs?: number | undefined;
  readonly endedToMs?: number | undefined;
  /** A part of the error, letter case ignored. */
  readonly error?: string | undefined;
  readonly idempotencyKey?: string | undefined;
  /** A fingerprint of failures. */
  readonly group?: string | undefined;
  readonly payload?: PayloadCondition | undefined;
  /** The task has all these tags. */
  readonly tags?: readonly string[] | undefined;
  /** The schedule that created the task. */
  readonly schedule?: string | undefined;
  /** The batch that the task is a member of. */
  readonly batch?: string | undefined;
  readonly lane?: string | undefined;
  /** The beginning or the end of the id. */
  readonly idPart?: string | undefined;
}

/** The value in the payload at a path of names and positions. */
export interface PayloadCondition {
  readonly path: readonly string[];
  readonly value: string;
}

export function placeOf({ place }: Task): TaskPlace {
  return place.in === "done" && place.how !== "completed" ? place.how : place.in;
}

/** Checks all conditions except the payload, which may have to be read. */
export function matches(task: Task, filter: TaskFilter): boolean {
  const { queue, place, priority, worker, error, idempotencyKey, tags = [], idPart } = filter;
  if (queue !== undefined && queueOf(task.command) !== queue) return false;
  if (!isIn(task, place)) return false;
  if (priority !== undefined && task.priority !== priority) return false;
  if (worker !== undefined && workerOf(task) !== worker) return false;
  if (error !== undefined && !task.error.toLowerCase().includes(error.toLowerCase())) return false;
  if (idempotencyKey !== undefined && task.idempotencyKey !== idempotencyKey) return false;
  if (idPart !== undefined && !hasPart(task.id, idPart)) return false;
  return (
    isOfSchedule(task, filter.schedule) &&
    isOfBatch(task, filter.batch) &&
    (filter.lane === undefined || laneOf(task) === filter.lane) &&
    isBetween(task.createdMs, filter.createdFromMs, filter.createdToMs) &&
    hasEnded(task, filter) &&
    isOfGroup(task, filter.group) &&
    tags.every((tag) => task.extras?.tags.includes(tag))
  );
}

function isIn(task: Task, place: TaskFilter["place"]): boolean {
  if (place === "failure") return isFailure(task);
  return place === undefined || placeOf(task) === place;
}

function isOfGroup(task: Task, group: string | undefined): boolean {
  return group === undefined || (isFailure(task) && groupOfTask(task) === group);
}

export function hasPart(id: string, part: string): boolean {
  return id.startsWith(part) || id.endsWith(part);
}

/** Whether the payload has the value; a payload that is not JSON has none. */
export function payloadMatches(payload: string, { path, value }: PayloadCondition): boolean {
  let found: unknown;
  try {
    found = JSON.parse(payload);
  } catch {
    // A payload that is nested too deeply, or damaged, matches nothing.
    return false;
  }
  for (const name of path) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, name)) return false;
    found = (found as Record<string, unknown>)[name];
  }
  return typeof found === "object" && found !== null ? false : String(found) === value;
}

function workerOf({ place }: Task): string | undefined {
  return place.in === "leased" || place.in === "done" ? place.workerId : undefined;
}

function hasEnded({ place }: Task, { endedFromMs, endedToMs }: TaskFilter): boolean {
  if (endedFromMs === undefined && endedToMs === undefined) return true;
  return (
    (place.in === "done" || place.in === "dead") && isBetween(place.atMs, endedFromMs, endedToMs)
  );
}

function isBetween(ms: number, fromMs: number | undefined, toMs: number | undefined): boolean {
  return (fromMs === undefined || ms >= fromMs) && (toMs === undefined || ms < toMs);
}

function isOfSchedule({ schedule }: Task, wanted: string | undefined): boolean {
  return wanted === undefined || schedule?.id === wanted;
}

function isOfBatch({ batch }: Task, wanted: string | undefined): boolean {
  return wanted === undefined || (batch?.id === wanted && !batch.isCallback);
}
