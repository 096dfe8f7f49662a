/** The current state of a task, with its payload. */
import type { TaskId } from "@codeq/queue";
import type { ClaimedTask } from "../broker/verbs.ts";
import { type Operation, refusal } from "./operation.ts";

export const getTask: Operation<{ readonly id: TaskId }, ClaimedTask> = {
  name: "get_task",
  access: "either",
  scope: undefined,
  showsPayloads: true,
  run: async (server, call, input) => {
    const found = await server.queue.get(call.identity.tenantId, input.id);
    return found === undefined ? refusal("not_found") : { ok: true, value: found };
  },
};
