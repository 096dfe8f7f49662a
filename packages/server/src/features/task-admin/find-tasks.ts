/** Finds tasks of the caller's tenant for administrators: those that match a filter page by page, or one in full. */
import { api } from "@codeq/protocol/api";
import type { Result } from "@codeq/queue";
import type { FoundTasks } from "../../core/broker/broker.ts";
import type { ClaimedTask } from "../../core/broker/verbs.ts";
import { bindInput } from "../../edge/bind.ts";
import { problemOfSearch, shownResult, shownTask } from "../../edge/hidden-payloads.ts";
import { type Answer, refusal } from "../../edge/operation.ts";
import { readFilter, wholeId } from "../../edge/task-filter-input.ts";

export interface InspectedTask extends Omit<ClaimedTask, "payload"> {
  /** Undefined when it is hidden from the caller. */
  readonly payload: string | undefined;
  /** Undefined while there is none. */
  readonly result: Result | undefined;
}

export const listTasks = bindInput(api.taskAdmin.listTasks, {
  run: async ({ broker }, call, { limit, after, order, ...input }): Promise<Answer<FoundTasks>> => {
    const hidden = problemOfSearch(call, input);
    if (hidden !== undefined) return hidden;
    const filter = readFilter(input);
    if (!filter.ok) return filter;
    const { tenantId } = call.identity;
    const found = await broker.find({ tenantId, filter: filter.value, order, after, limit });
    if (found === undefined) return refusal("overloaded");
    const tasks = found.tasks.map((task) => shownTask(call, task));
    return { ok: true, value: { ...found, tasks } };
  },
});

export const inspectTask = bindInput(api.taskAdmin.inspectTask, {
  run: async (server, call, input): Promise<Answer<InspectedTask>> => {
    const id = await wholeId(server, call, input.id);
    if (!id.ok) return id;
    const { tenantId } = call.identity;
    const found = await server.broker.get(tenantId, id.value);
    if (found === undefined) return refusal("not_found");
    const result = await server.broker.result(tenantId, id.value);
    const shown = result && shownResult(call, result);
    const payload = call.identity.hidesPayloads ? undefined : found.payload;
    return { ok: true, value: { task: shownTask(call, found.task), payload, result: shown } };
  },
});
