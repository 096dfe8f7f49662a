/** Which task a worker speaks of, and as whom. */
import type { Owner, TaskId, TenantId, WorkerId } from "@codeq/queue";
import type { Call } from "./operation.ts";

export interface OwnedTaskInput {
  readonly id: TaskId;
  /** The fencing token of the claim; undefined when the worker does not send it. */
  readonly leaseToken: number | undefined;
}

export function ownedTask(
  call: Call,
  input: OwnedTaskInput,
): { tenantId: TenantId; id: TaskId; owner: Owner } {
  const workerId = call.identity.subject as WorkerId;
  const { id, leaseToken } = input;
  return { tenantId: call.identity.tenantId, id, owner: { workerId, leaseToken } };
}
