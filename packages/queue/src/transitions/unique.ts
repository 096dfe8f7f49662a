/**
 * Tasks of which one at a time exists for a key. The entry of a key names the task that holds the key and, with
 * `replace`, `latest` and `cancel`, the one task that waits for the end of the holder. What an entry says follows from
 * the changes of tasks, so that it is written in the log record of the create and removed in that of the end.
 *
 *   a request meets            return   refuse   replace, latest          cancel
 *   no entry                   creates  creates  creates                  creates
 *   a holder that waits        answers  refuses  changes the holder       cancels the holder, creates
 *   a holder that runs         answers  refuses  creates a waiting task   the same, and cancels the holder
 *   a waiting task beside it   answers  refuses  changes the waiting one  the same, and cancels the holder
 *   an ended holder, in `for`  answers  refuses  creates for the end of `for`
 */
import { accept, type Outcome, refuse } from "../outcome.ts";
import type { Place, Task, TaskId, TaskUnique } from "../task.ts";
import { type Edit, type EditAt, edit } from "./edit.ts";
import type { NewTask } from "./enqueue.ts";

/** What a request with a unique key came to. */
export const uniqueOutcomes = ["created", "queued", "replaced", "returned", "refused"] as const;
export const uniqueWhiles = ["unfinished", "waiting"] as const;
export const uniqueActions = ["return", "refuse", "replace", "latest", "cancel"] as const;

/** What a producer asks for. */
export interface UniqueRequest {
  readonly key: string;
  /** Until when a task holds its key: until it has ended, or until a worker begins it. */
  readonly while: (typeof uniqueWhiles)[number];
  readonly on: (typeof uniqueActions)[number];
  /** How long the key is held at least, from the creation of the task; 0 for no longer than the task. */
  readonly forMs: number;
  /** How long later requests may put off the task; 0 for any time. */
  readonly maxWaitMs: number;
}

/** The task of a key, and the task that waits for its end; empty when there is none. */
export interface UniqueEntry {
  readonly holder: TaskId;
  readonly waiting: TaskId | "";
  /** The key is held until then, also when the task has ended before. */
  readonly untilMs: number;
  readonly hasEnded: boolean;
}

/** A task that waits for another one is delayed until then, and released earlier. */
export const heldMs = 253_402_300_799_999;

/** What a new task has of its request. */
export function uniqueOf(
  { key, while: until, forMs }: UniqueRequest,
  at: { readonly nowMs: number; readonly isHeld: boolean; readonly dueMs: number | undefined },
): TaskUnique {
  const { nowMs: sinceMs, isHeld, dueMs = 0 } = at;
  return { key, while: until, forMs, replaced: 0, sinceMs, isHeld, dueMs: isHeld ? dueMs : 0 };
}

/** Whether a task holds its key, or waits for it. */
export function holdsKey({ unique, place, leaseToken }: Task): boolean {
  if (unique === undefined) return false;
  const isWaiting = place.in === "ready" || place.in === "delayed";
  if (unique.while === "waiting") return isWaiting && leaseToken === 0;
  return isWaiting || place.in === "leased";
}

export type UniqueDecision =
  /** `isHeld`: behind the holder. `notBeforeMs`: 0 for any time. */
  | {
      readonly do: "create";
      readonly isHeld: boolean;
      readonly notBeforeMs: number;
      readonly cancels: Task | undefined;
    }
  | { readonly do: "replace"; readonly task: Task; readonly cancels: Task | undefined }
  | { readonly do: "answer" | "refuse"; readonly task: Task };

/** The decision about a request. `holder` is undefined when the key is free. */
export function decideUnique(
  { on }: UniqueRequest,
  {
    holder,
    waiting,
    freeMs,
  }: {
    readonly holder: Task | undefined;
    readonly waiting: Task | undefined;
    /** For a holder that has ended: when the key is free again. */
    readonly freeMs: number;
  },
): UniqueDecision {
  const created = { do: "create", isHeld: false, notBeforeMs: 0, cancels: undefined } as const;
  if (holder === undefined) return created;
  if (on === "return") return { do: "answer", task: waiting ?? holder };
  if (on === "refuse") return { do: "refuse", task: holder };
  if (!holdsKey(holder)) return { ...created, notBeforeMs: freeMs };
  const cancels = on === "cancel" ? holder : undefined;
  if (waiting !== undefined) return { do: "replace", task: waiting, cancels };
  if (holder.place.in === "leased") {
    return { ...created, isHeld: true, notBeforeMs: freeMs, cancels };
  }
  return on === "cancel" ? { ...created, cancels } : { do: "replace", task: holder, cancels };
}

/** A waiting task with the payload, the priority and the time of the last request. */
export function replaceUnique(
  task: Task,
  wanted: Pick<NewTask, "priority" | "visibleMs" | "unique"> & Pick<Edit, "payload">,
  at: EditAt,
): Outcome<Task, "not_waiting"> {
  const { unique } = task;
  if (unique === undefined) return refuse("not_waiting");
  const { priority, visibleMs, payload } = wanted;
  const maxWaitMs = wanted.unique?.maxWaitMs ?? 0;
  const dueMs = replacedDueMs(unique, { visibleMs, maxWaitMs });
  const isHeld = unique.isHeld;
  const outcome = edit(task, { priority, payload, dueMs: isHeld ? undefined : dueMs }, at);
  if (!outcome.ok) return outcome;
  const due = isHeld && dueMs !== undefined ? { dueMs } : {};
  return accept({ ...outcome.value, unique: { ...unique, ...due, replaced: unique.replaced + 1 } });
}

/** When a replaced task is due: as the last request says, but not later than the first one allows. */
function replacedDueMs(
  { sinceMs }: TaskUnique,
  { visibleMs, maxWaitMs }: { readonly visibleMs: number | undefined; readonly maxWaitMs: number },
): number | undefined {
  if (visibleMs === undefined || maxWaitMs === 0) return visibleMs;
  return Math.min(visibleMs, sinceMs + maxWaitMs);
}

/** The task whose turn it is when the holder has ended. */
export function released(task: Task, at: { readonly nowMs: number; readonly seq: number }): Task {
  const { unique } = task;
  if (unique === undefined || !unique.isHeld) return task;
  const { dueMs } = unique;
  const place: Place = dueMs > at.nowMs ? { in: "delayed", dueMs } : { in: "ready", seq: at.seq };
  return { ...task, place, updatedMs: at.nowMs, unique: { ...unique, isHeld: false, dueMs: 0 } };
}
