import type { Result, Task } from "./task.ts";

/** What a producer finds under a task that ran out of deliveries: a failure without a result. */
export function buriedResult(task: Task): Result {
  if (task.place.in !== "dead") throw new Error(`a ${task.place.in} task has no burial to record`);
  return {
    taskId: task.id,
    status: "FAILED",
    resultJson: "",
    error: task.error,
    artifacts: [],
    attempts: task.attempts,
    completedMs: task.place.atMs,
  };
}
