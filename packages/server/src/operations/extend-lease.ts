/** A heartbeat: the lease now ends the given time from now. */
import type { Extended } from "../broker/queue.ts";
import { leaseMsOf } from "./lease-ms.ts";
import type { Operation } from "./operation.ts";
import { type OwnedTaskInput, ownedTask } from "./owned-task.ts";
import { answerOf } from "./refusal-of.ts";

export interface ExtendLeaseInput extends OwnedTaskInput {
  /** 0 or less for the default. */
  readonly extendSeconds: number;
}

export const extendLease: Operation<ExtendLeaseInput, Extended> = {
  name: "extend_lease",
  access: "worker",
  scope: "codeq:heartbeat",
  run: (server, call, input) => {
    const leaseMs = leaseMsOf(server, input.extendSeconds, "extendSeconds");
    if (!leaseMs.ok) return leaseMs;
    return answerOf(server, (waiter) => {
      server.queue.heartbeat(ownedTask(call, input), leaseMs.value, waiter);
      return undefined;
    });
  },
};
