/** A task with all its details, for an administrator. */
import type { Result } from "@codeq/queue";
import type { ClaimedTask } from "../../core/broker/verbs.ts";
import { shownResult, shownTask } from "../../edge/hidden-payloads.ts";
import { type Operation, refusal } from "../../edge/operation.ts";
import { wholeId } from "../../edge/whole-id.ts";

export interface InspectedTask extends Omit<ClaimedTask, "payload"> {
  /** Undefined when it is hidden from the caller. */
  readonly payload: string | undefined;
  /** Undefined while there is none. */
  readonly result: Result | undefined;
}

export const inspectTask: Operation<{ readonly id: string }, InspectedTask> = {
  name: "inspect_task",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants", target: ({ id }) => id },
  run: async (server, call, input) => {
    const id = await wholeId(server, call, input.id);
    if (!id.ok) return id;
    const { tenantId } = call.identity;
    const found = await server.queue.get(tenantId, id.value);
    if (found === undefined) return refusal("not_found");
    const result = await server.queue.result(tenantId, id.value);
    const shown = result && shownResult(call, result);
    return { ok: true, value: { ...shownTask(call, found), result: shown } };
  },
};
