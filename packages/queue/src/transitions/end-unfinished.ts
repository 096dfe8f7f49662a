import { emptyResult } from "../result.ts";
import type { Retention } from "../retention.ts";
import type { Task, WorkerId } from "../task.ts";
import { detached } from "./attach.ts";

/** The end of a task that no worker has finished: failed, by nobody. */
export function endUnfinished(
  task: Task,
  error: string,
  at: { readonly nowMs: number; readonly retention: Retention },
): Task {
  return {
    ...detached(task),
    error,
    handBacks: 0,
    cancelMs: 0,
    updatedMs: at.nowMs,
    result: emptyResult,
    place: {
      in: "done",
      how: "failed",
      workerId: "" as WorkerId,
      startedMs: at.nowMs,
      atMs: at.nowMs,
      expiresMs: at.nowMs + at.retention.doneMs,
    },
  };
}
