/**
 * An operator changes a task that waits. It keeps its id, its attempts and, unless its queue, its
 * priority or its time changes, its turn; otherwise it goes to the back of where it belongs now. With
 * another time, its time to live counts from there. A task that a worker has is left alone: the worker would
 * do what it was given, and not what was said since.
 */
import { accept, type Outcome, refuse } from "../outcome.ts";
import { clampPriority, type Place, queueOf, type Task, type TaskExtras } from "../task.ts";

/** What is left out stays as it is. */
export interface Edit {
  readonly command?: string | undefined;
  readonly priority?: number | undefined;
  /** When it is to be claimable; a moment that has passed is at once. */
  readonly dueMs?: number | undefined;
  readonly payload?: NewPayload | undefined;
}

interface NewPayload {
  /** JSON text. */
  readonly text: string;
  readonly bytes: number;
  /** Whether it is short enough to travel with the task. */
  readonly isKept: boolean;
}

export interface EditAt {
  readonly nowMs: number;
  /** The position of the task if it has to queue up again. */
  readonly seq: number;
}

/** Answers the same task when nothing would change. */
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
  // One that waits has nothing stored but its payload.
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
