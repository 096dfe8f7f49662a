/**
 * An operator changes a waiting task. The task keeps its id, its attempts and, unless its queue, its priority or
 * its time changes, its position; otherwise it goes to the back of its new place. With another time, its time to
 * live counts from there. A leased task cannot be edited, because its worker has the old version.
 */
import { accept, type Outcome, refuse } from "../outcome.ts";
import { clampPriority, type Place, queueOf, type Task, type TaskExtras } from "../task.ts";

/** Fields that are left out do not change. */
export interface Edit {
  readonly command?: string | undefined;
  readonly priority?: number | undefined;
  /** When the task can be claimed; a time in the past means at once. */
  readonly dueMs?: number | undefined;
  readonly payload?: NewPayload | undefined;
}

interface NewPayload {
  /** JSON text. */
  readonly text: string;
  readonly bytes: number;
  /** Whether the payload is short enough to be stored inside the task. */
  readonly isKept: boolean;
}

export interface EditAt {
  readonly nowMs: number;
  /** The position of the task if it goes to the back of a queue. */
  readonly seq: number;
}

/** Returns the same task when nothing changes. */
export function edit(task: Task, wanted: Edit, at: EditAt): Outcome<Task, "not_waiting"> {
  if (task.place.in !== "ready" && task.place.in !== "delayed") return refuse("not_waiting");
  const { command = task.command, payload } = wanted;
  const priority = clampPriority(wanted.priority ?? task.priority);
  const isElsewhere = queueOf(command) !== queueOf(task.command) || priority !== task.priority;
  const place = placeOf(task.place, wanted.dueMs, { ...at, isElsewhere });
  const extras = extrasOf(task, wanted.dueMs, at.nowMs);
  const isSame =
    command === task.command &&
    priority === task.priority &&
    place === task.place &&
    extras === task.extras;
  if (isSame && payload === undefined) return accept(task);
  const edited = { ...task, command, priority, place, extras, updatedMs: at.nowMs };
  if (payload === undefined) return accept(edited);
  const text = payload.isKept ? payload.text : undefined;
  // A waiting task has nothing stored but its payload.
  return accept({ ...edited, payload: text, storedBytes: payload.bytes });
}

function extrasOf(
  { extras }: Task,
  dueMs: number | undefined,
  nowMs: number,
): TaskExtras | undefined {
  if (extras === undefined || extras.startByMs === 0 || dueMs === undefined) return extras;
  return { ...extras, startByMs: Math.max(dueMs, nowMs) + extras.ttlMs };
}

function placeOf(
  place: Extract<Place, { readonly in: "ready" | "delayed" }>,
  wantedMs: number | undefined,
  at: EditAt & { readonly isElsewhere: boolean },
): Place {
  const dueMs = wantedMs ?? (place.in === "delayed" ? place.dueMs : undefined);
  if (dueMs !== undefined && dueMs > at.nowMs) {
    return place.in === "delayed" && place.dueMs === dueMs ? place : { in: "delayed", dueMs };
  }
  return place.in === "ready" && !at.isElsewhere ? place : { in: "ready", seq: at.seq };
}
