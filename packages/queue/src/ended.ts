/**
 * What a task leaves when it has ended: its result for the producer, which is derived from the task, and the time for
 * which the task is kept. Retention starts when the task ends, so a task that waits, is delayed or runs is never
 * removed by its age.
 */
import type { Artifact, ResultBody, Task, TaskId } from "./task.ts";

export interface Result {
  readonly taskId: TaskId;
  readonly status: "COMPLETED" | "FAILED";
  /** JSON text of an object, exactly as the worker sent it; empty when there is none. */
  readonly resultJson: string;
  readonly error: string;
  readonly artifacts: readonly Artifact[];
  readonly attempts: number;
  readonly completedMs: number;
}

/** The result of a task that failed without a result from a worker. */
export const emptyResult: ResultBody = { json: "", artifacts: [] };

/** The result of a task that has ended; undefined for one that has not. */
export function resultOf(task: Task, body: ResultBody): Result | undefined {
  const { place } = task;
  if (place.in !== "done" && place.in !== "dead") return undefined;
  return {
    taskId: task.id,
    status: place.in === "done" && place.how === "completed" ? "COMPLETED" : "FAILED",
    resultJson: body.json,
    error: task.error,
    artifacts: body.artifacts,
    attempts: task.attempts,
    completedMs: place.atMs,
  };
}

export interface Retention {
  /** For tasks that a worker finished, whether they completed or failed. */
  readonly doneMs: number;
  /** For dead letters; 0 keeps them forever. */
  readonly deadMs: number;
}

export function isExpired(task: Task, nowMs: number): boolean {
  const expiresMs = expiresMsOf(task);
  return expiresMs !== undefined && expiresMs <= nowMs;
}

/** The instant from which the task may be removed; undefined when that instant is not known. */
export function expiresMsOf({ place, batch }: Pick<Task, "place" | "batch">): number | undefined {
  // A member is kept as long as the callback of its batch, which may read its result.
  if (batch !== undefined && !batch.isCallback) return undefined;
  switch (place.in) {
    case "ready":
    case "delayed":
    case "held":
    case "leased":
      return undefined;
    case "dead":
    case "done":
      return place.expiresMs;
  }
}
