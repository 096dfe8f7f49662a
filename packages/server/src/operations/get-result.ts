/** The outcome of a task; waits for the end of the task if asked to. */
import { limits } from "@codeq/protocol";
import type { Result, TaskId } from "@codeq/queue";
import type { ClaimedTask } from "../broker/verbs.ts";
import { type Operation, refusal } from "./operation.ts";

export interface GetResultInput {
  readonly id: TaskId;
  readonly waitSeconds: number;
}

export interface TaskWithResult extends ClaimedTask {
  readonly result: Result;
}

export const getResult: Operation<GetResultInput, TaskWithResult> = {
  name: "get_result",
  access: "either",
  scope: undefined,
  showsPayloads: true,
  run: async (server, call, input) => {
    const { queue } = server;
    const { tenantId } = call.identity;
    if ((await queue.get(tenantId, input.id)) === undefined) return refusal("task_not_found");
    const waitMs = Math.min(Math.max(input.waitSeconds, 0), limits.resultWaitSecondsMax) * 1000;
    let result = await queue.result(tenantId, input.id);
    if (result === undefined && waitMs > 0) {
      const wait = { waitMs, signal: call.signal };
      if ((await queue.awaitResult(tenantId, input.id, wait)) === "crowded") {
        return refusal("overloaded");
      }
      result = await queue.result(tenantId, input.id);
    }
    const found = await queue.get(tenantId, input.id);
    if (found === undefined) return refusal("task_not_found");
    const { place } = found.task;
    // A dead letter may have been replayed between the two looks.
    const isOver = place.in === "done" || place.in === "dead";
    return result === undefined || !isOver
      ? refusal("result_not_found")
      : { ok: true, value: { ...found, result } };
  },
};
