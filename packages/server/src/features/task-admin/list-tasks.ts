/** Lists tasks of the caller's tenant that match a filter, page by page. */
import type { FoundTasks } from "../../core/broker/queue.ts";
import { problemOfSearch, shownTask } from "../../edge/hidden-payloads.ts";
import { type Operation, refusal } from "../../edge/operation.ts";
import { type PageInput, pageLimitOf } from "../../edge/page-limit.ts";
import { type FilterInput, readFilter } from "../../edge/task-filter-input.ts";

export interface ListTasksInput extends PageInput {
  readonly filter: FilterInput;
  /** `newest` or `oldest`; empty for the newest first. */
  readonly order: string;
}

export const listTasks: Operation<ListTasksInput, FoundTasks> = {
  name: "list_tasks",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants" },
  run: async ({ queue }, call, input) => {
    const limit = pageLimitOf(input);
    if (!limit.ok) return limit;
    const hidden = problemOfSearch(call, input.filter);
    if (hidden !== undefined) return hidden;
    const filter = readFilter(input.filter);
    if (!filter.ok) return filter;
    const order = input.order === "" ? "newest" : input.order;
    if (order !== "newest" && order !== "oldest") {
      return refusal("invalid_argument", "invalid 'order': it must be newest or oldest");
    }
    if (!/^([0-9a-f-]{36})?$/.test(input.after)) {
      return refusal("invalid_argument", "invalid 'after' (use 'next' of the previous page)");
    }
    const found = await queue.find({
      tenantId: call.identity.tenantId,
      filter: filter.value,
      order,
      after: input.after,
      limit: limit.value,
    });
    if (found === undefined) return refusal("overloaded");
    const tasks = found.tasks.map((task) => shownTask(call, task));
    return { ok: true, value: { ...found, tasks } };
  },
};
