/**
 * Nothing of a paused queue is claimed, in the order of the log, and a pause that was acknowledged is not
 * lost by a crash.
 */
import { queueOf, type TenantId } from "@codeq/queue";
import { pausedKey } from "../../../packages/server/src/core/store/keys.ts";
import type { MakeChecker } from "./checker.ts";

export const pausedStandsStill: MakeChecker = ({ world, report }) => {
  /** When each pause was acknowledged, until somebody asks for its end. */
  const acknowledgedMs = new Map<string, number>();
  const keyOf = (tenant: string, command: string): string =>
    pausedKey(queueOf(command), tenant as TenantId);
  return {
    event: ({ kind, id, before }) => {
      if (kind !== "claim" || before === undefined) return;
      const key = keyOf(before.tenantId, before.command);
      if (world.ledger.keys.has(key)) report(`${id} was claimed although ${key} is there`);
    },
    invoked: ({ verb, caller, input }) => {
      if (verb === "resumeQueue") acknowledgedMs.delete(keyOf(caller.tenant, input.command));
    },
    answered: ({ verb, caller, input, answer, answeredMs }) => {
      if (verb !== "pauseQueue" || !answer.ok) return;
      const key = keyOf(caller.tenant, input.command);
      // Somebody may have resumed it before the answer came.
      if (!world.ledger.keys.has(key)) return;
      acknowledgedMs.set(key, answeredMs);
    },
    recovered: ({ mayHaveLost }) => {
      for (const [key, ms] of acknowledgedMs) {
        if (world.ledger.keys.has(key)) continue;
        if (!mayHaveLost(ms)) report(`${key} was acknowledged and is lost`);
        acknowledgedMs.delete(key);
      }
    },
    looked: ({ core }) => {
      for (const queue of core.shard.queues.all()) {
        if (queue.pause !== undefined && queue.topPriority >= 0) {
          report(`${queue.name} of ${queue.tenantId} is paused and offers tasks`);
        }
      }
    },
  };
};
