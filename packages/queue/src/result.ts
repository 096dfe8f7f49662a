/** The result of a finished or dead task for its producer; it is derived from the task. */
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
