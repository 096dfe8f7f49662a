/** A task as it is now, with its payload; in a cluster, if somebody wants that, as this node knows it. */
import type { TaskId } from "@codeq/queue";
import type { ClaimedTask } from "../../core/broker/verbs.ts";
import { type Operation, refusal } from "../../edge/operation.ts";

export interface GetTaskInput {
  readonly id: TaskId;
  /** `local` for what this node knows; default: what the leader knows. */
  readonly consistency?: string;
}

export interface FoundTask extends ClaimedTask {
  /** How many records this node had applied; undefined when the leader was asked. */
  readonly appliedIndex?: number;
}

export const getTask: Operation<GetTaskInput, FoundTask> = {
  name: "get_task",
  access: "either",
  scope: undefined,
  showsPayloads: true,
  run: async ({ queue, cluster }, { identity: { tenantId } }, { id, consistency = "" }) => {
    if (consistency !== "" && consistency !== "local") {
      return refusal("invalid_argument", "invalid 'consistency' (local, or leave it out)");
    }
    const local = consistency === "local" ? cluster?.local(tenantId, id) : undefined;
    const found = local ?? (await queue.get(tenantId, id));
    return found === undefined ? refusal("not_found") : { ok: true, value: found };
  },
};
