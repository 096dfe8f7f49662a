/** The outcome of a task; waits for the end of the task if asked to. */
import { limits } from "@codeq/protocol";
import type { Result, Task, TaskId } from "@codeq/queue";
import type { ClaimedTask } from "../../core/broker/verbs.ts";
import {
  type Answer,
  type Call,
  type Operation,
  refusal,
  type Server,
} from "../../edge/operation.ts";

export interface GetResultInput {
  readonly id: TaskId;
  readonly waitSeconds: number;
}

export interface EndedTask {
  readonly task: Task;
  readonly result: Result;
}

export type TaskWithResult = ClaimedTask & EndedTask;

export const getResult: Operation<GetResultInput, TaskWithResult> = {
  name: "get_result",
  access: "either",
  scope: undefined,
  showsPayloads: true,
  run: async (server, call, input) => {
    const waited = await awaitEnd(server, call, input);
    const ended = await readEnd(server, call, { id: input.id, waited });
    if (!ended.ok) return ended;
    const found = await server.queue.get(call.identity.tenantId, input.id);
    if (found === undefined) return refusal("task_not_found");
    const { place } = found.task;
    // A dead letter may have been replayed between the two looks.
    const isOver = place.in === "done" || place.in === "dead";
    const { result } = ended.value;
    return isOver ? { ok: true, value: { ...found, result } } : refusal("result_not_found");
  },
};

/** Whether the caller was allowed to wait. */
export type Waited = "waited" | "crowded";

/** Waits for the end of the task and reads nothing, so that those who wait hold no results. */
export async function awaitEnd(
  { queue }: Server,
  { identity, signal }: Pick<Call, "identity" | "signal">,
  { id, waitSeconds }: GetResultInput,
): Promise<Waited> {
  const waitMs = Math.min(Math.max(waitSeconds, 0), limits.resultWaitSecondsMax) * 1000;
  return waitMs > 0 ? queue.awaitResult(identity.tenantId, id, { waitMs, signal }) : "waited";
}

/** The result of a task, without the payload. */
export async function readEnd(
  { queue }: Server,
  { identity }: Pick<Call, "identity">,
  { id, waited }: { readonly id: TaskId; readonly waited: Waited },
): Promise<Answer<EndedTask>> {
  const found = await queue.outcome(identity.tenantId, id);
  if (found === undefined) return refusal("task_not_found");
  const { task, result } = found;
  if (result !== undefined) return { ok: true, value: { task, result } };
  return refusal(waited === "crowded" ? "overloaded" : "result_not_found");
}
