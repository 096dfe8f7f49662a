/** A heartbeat: the lease ends the given time from now, or later if it would have. */

import { limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import { reportLimits } from "@codeq/queue";
import type { Extended } from "../../core/broker/broker.ts";
import { bindByHand } from "../../edge/bind.ts";
import {
  type Answer,
  type OwnedTaskInput,
  ownedTask,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { answerOf } from "../../edge/refusal-of.ts";

export interface ExtendLeaseInput extends OwnedTaskInput {
  /** 0 or less for the default. */
  readonly extendSeconds: number;
  /** How far the work has come; undefined when the worker does not say. */
  readonly progress: { readonly percent: number; readonly text: string } | undefined;
  /** Lines for people who look at the task. */
  readonly logs: readonly string[];
}

export const extendLease = bindByHand<ExtendLeaseInput, Extended>(api.work.extendLease, {
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
      server.broker.heartbeat(ownedTask(call, input), beat, waiter);
      return undefined;
    });
  },
});

function isPercent(percent: number): boolean {
  return Number.isInteger(percent) && percent >= 0 && percent <= 100;
}

/** The length of a lease: the default if none is given, otherwise as asked, within the limits. */
export function leaseMsOf(server: Server, seconds: number, field: string): Answer<number> {
  if (seconds <= 0) return { ok: true, value: server.config.defaultLeaseSeconds * 1000 };
  const max = limits.leaseSecondsMax;
  if (seconds > max) {
    return refusal("invalid_argument", `invalid '${field}' (must be <= ${max})`);
  }
  return { ok: true, value: seconds * 1000 };
}
