/** A task as it is now, and its result, for which a caller may wait. In a cluster a caller may ask for the copy of this node. */
import { limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import type { Result, Task, TaskId } from "@codeq/queue";
import type { ClaimedTask } from "../../core/broker/verbs.ts";
import { utcSeconds } from "../../core/timestamps.ts";
import { bindInput } from "../../edge/bind.ts";
import { type Answer, type Call, refusal, type Server } from "../../edge/operation.ts";

export interface GetResultInput {
  readonly id: TaskId;
  readonly waitSeconds: number;
}

export interface EndedTask {
  readonly task: Task;
  readonly result: Result;
}

export type TaskWithResult = ClaimedTask & EndedTask;

export const getResult = bindInput(api.tasks.getResult, {
  showsPayloads: true,
  run: async (server, call, { waitSeconds, ...input }): Promise<Answer<TaskWithResult>> => {
    const id = input.id as TaskId;
    const waited = await awaitEnd(server, call, { id, waitSeconds });
    const ended = await readEnd(server, call, { id, waited });
    if (!ended.ok) return ended;
    const found = await server.broker.get(call.identity.tenantId, id);
    if (found === undefined) return refusal("task_not_found");
    const { place } = found.task;
    // A dead letter may have been replayed between the two looks.
    const isOver = place.in === "done" || place.in === "dead";
    const { result } = ended.value;
    return isOver ? { ok: true, value: { ...found, result } } : refusal("result_not_found");
  },
});

/** Whether the caller was allowed to wait. */
export type Waited = "waited" | "crowded";

/** Waits for the end of the task and reads nothing, so that waiting callers hold no results. */
export async function awaitEnd(
  { broker }: Server,
  { identity, signal }: Pick<Call, "identity" | "signal">,
  { id, waitSeconds }: GetResultInput,
): Promise<Waited> {
  const waitMs = Math.min(Math.max(waitSeconds, 0), limits.resultWaitSecondsMax) * 1000;
  return waitMs > 0 ? broker.awaitResult(identity.tenantId, id, { waitMs, signal }) : "waited";
}

/** The result of a task, without the payload. */
export async function readEnd(
  { broker }: Server,
  { identity }: Pick<Call, "identity">,
  { id, waited }: { readonly id: TaskId; readonly waited: Waited },
): Promise<Answer<EndedTask>> {
  const found = await broker.outcome(identity.tenantId, id);
  if (found === undefined) return refusal("task_not_found");
  const { task, result } = found;
  if (result !== undefined) return { ok: true, value: { task, result } };
  return refusal(waited === "crowded" ? "overloaded" : "result_not_found");
}

export interface FoundTask extends ClaimedTask {
  /** How many records this node had applied; undefined when the leader was asked. */
  readonly appliedIndex?: number;
}

export const getTask = bindInput(api.tasks.getTask, {
  showsPayloads: true,
  run: async ({ broker, cluster }, { identity }, input): Promise<Answer<FoundTask>> => {
    const { tenantId } = identity;
    const id = input.id as TaskId;
    const local = input.consistency === "local" ? cluster?.local(tenantId, id) : undefined;
    const found = local ?? (await broker.get(tenantId, id));
    return found === undefined ? refusal("not_found") : { ok: true, value: found };
  },
});

export const getTaskByKey = bindInput(api.tasks.getTaskByKey, {
  showsPayloads: true,
  run: async ({ broker }, { identity }, { key }): Promise<Answer<FoundTask>> => {
    const { tenantId } = identity;
    const entry = await broker.entryOf(tenantId, key);
    const found = entry && (await broker.get(tenantId, entry.taskId));
    if (found !== undefined) return { ok: true, value: found };
    // The task may have been deleted between the two looks.
    const { taskId, gone } = (entry && (await broker.entryOf(tenantId, key))) ?? {};
    if (taskId === undefined || gone === undefined) return refusal("not_found");
    const status = gone.how === "completed" ? "COMPLETED" : "FAILED";
    const details = { taskId, key, status, endedAt: utcSeconds(gone.endedMs) };
    return { ...refusal("task_deleted"), details };
  },
});
