/**
 * One task from one state to the next, and why. The code that decides makes one, and everything else follows
 * from it: what is written, what memory knows, what is counted and who is told.
 */
import type { ResultBody, Task } from "./task.ts";

export type Cause =
  | "created"
  | "claimed"
  | "extended"
  | "attached"
  | "finished"
  | "nacked"
  | "abandoned"
  | "released"
  | "expired"
  | "promoted"
  | "replayed"
  | "edited"
  | "cancelled"
  /** Nobody began it in time. */
  | "lapsed"
  /** Another task was made of it; it stays where it is. */
  | "linked"
  | "deleted";

export interface Change {
  /** Undefined when the task is new. */
  readonly before: Task | undefined;
  /** Undefined when the task is gone. */
  readonly after: Task | undefined;
  readonly because: Cause;
  /** What a worker said that gave it back, or why it was taken back; empty when there is nothing to say. */
  readonly reason: string;
  /** The payload of a new or edited task that is too long to travel with it. */
  readonly payload: string | undefined;
  /** The result of a task that is too long to travel with it. */
  readonly result: ResultBody | undefined;
  /** Identifies the payload of a new task that has an idempotency key. */
  readonly payloadHash: string;
  /** Likely to be asked for again soon, and worth its place in memory. */
  readonly keep: boolean;
}

/** A change with nothing written beside the task. */
export function changeOf(
  before: Task | undefined,
  after: Task | undefined,
  because: Cause,
  reason = "",
): Change {
  return {
    before,
    after,
    because,
    reason,
    payload: undefined,
    result: undefined,
    payloadHash: "",
    keep: true,
  };
}
