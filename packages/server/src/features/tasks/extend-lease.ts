/** A heartbeat: the lease now ends the given time from now. */
import { reportLimits } from "@codeq/queue";
import type { Extended } from "../../core/broker/queue.ts";
import { type Operation, refusal } from "../../edge/operation.ts";
import { type OwnedTaskInput, ownedTask } from "../../edge/owned-task.ts";
import { answerOf } from "../../edge/refusal-of.ts";
import { leaseMsOf } from "./lease-ms.ts";

export interface ExtendLeaseInput extends OwnedTaskInput {
  /** 0 or less for the default. */
  readonly extendSeconds: number;
  /** How far the work has come; undefined when the worker does not say. */
  readonly progress: { readonly percent: number; readonly text: string } | undefined;
  /** Lines for people who look at the task. */
  readonly logs: readonly string[];
}

export const extendLease: Operation<ExtendLeaseInput, Extended> = {
  name: "extend_lease",
  access: "worker",
  scope: "codeq:heartbeat",
  run: (server, call, input) => {
    const leaseMs = leaseMsOf(server, input.extendSeconds, "extendSeconds");
    if (!leaseMs.ok) return leaseMs;
    const { progress, logs: lines } = input;
    if (progress !== undefined && !isPercent(progress.percent)) {
      return refusal("invalid_argument", "invalid 'progress.percent' (0 to 100)");
    }
    const isSaid = progress !== undefined || lines.length > 0;
    const report = isSaid ? { progress, lines: lines.slice(-reportLimits.linesMax) } : undefined;
    const beat = { leaseMs: leaseMs.value, report };
    return answerOf(server, (waiter) => {
      server.queue.heartbeat(ownedTask(call, input), beat, waiter);
      return undefined;
    });
  },
};

function isPercent(percent: number): boolean {
  return Number.isInteger(percent) && percent >= 0 && percent <= 100;
}
