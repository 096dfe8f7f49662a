/** The task that a worker names, and the identity of the worker. */
import type { Owner, TaskId, TenantId } from "@codeq/queue";
import type { Call } from "./operation.ts";

export interface OwnedTaskInput {
  readonly id: TaskId;
  /** The fencing token of the claim; undefined when the worker does not send it. */
  readonly leaseToken: number | undefined;
}

export function ownedTask(
  call: Pick<Call, "identity">,
  input: OwnedTaskInput,
): { tenantId: TenantId; id: TaskId; owner: Owner } {
  const { tenantId, workerId } = call.identity;
  const { id, leaseToken } = input;
  return { tenantId, id, owner: { workerId, leaseToken } };
}
