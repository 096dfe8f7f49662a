/**
 * The transition of one task from one state to the next, and its reason. Everything else is derived from it: the
 * bytes that are written, the state in memory, the counters and the notifications.
 */
import type { ResultBody, Task } from "./task.ts";

export type Cause =
  | "created"
  | "claimed"
  | "extended"
  | "attached"
  | "finished"
  | "nacked"
  /** A worker gave the task back, and its lane is held. */
  | "held"
  | "abandoned"
  | "released"
  | "expired"
  | "promoted"
  | "replayed"
  | "edited"
  | "cancelled"
  /** No worker began the task in time. */
  | "lapsed"
  /** The batch of a held task failed. */
  | "unreached"
  /** The task was replayed as a new task; it stays where it is. */
  | "linked"
  | "deleted";

export interface Change {
  /** Undefined when the task is new. */
  readonly before: Task | undefined;
  /** Undefined when the task was deleted. */
  readonly after: Task | undefined;
  readonly because: Cause;
  /** The reason that a worker gave with a nack, or why the task was taken back; may be empty. */
  readonly reason: string;
  /** The payload of a new or edited task, when it is too long to be stored inside the task. */
  readonly payload: string | undefined;
  /** The result of a task, when it is too long to be stored inside the task. */
  readonly result: ResultBody | undefined;
  /** Identifies the payload of a new task that has an idempotency key. */
  readonly payloadHash: string;
  /** Whether the task should stay in memory after the flush, because it will probably be read again soon. */
  readonly keep: boolean;
}

/** A change that writes nothing besides the task. */
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
