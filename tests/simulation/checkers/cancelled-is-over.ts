/**
 * A task that was cancelled is never delivered again, and only those end without a worker that somebody
 * of their tenant cancelled. What is cancelled while a worker has it ends when the grace is over.
 */
import type { TaskId } from "@codeq/queue";
import type { MakeChecker } from "./checker.ts";

export const cancelledIsOver: MakeChecker = ({ report }) => {
  const asked = new Set<string>();
  const acknowledgedMs = new Map<TaskId, number>();
  return {
    invoked: ({ verb, caller, input }) => {
      if (verb === "createJob" && input.action === "cancel") asked.add(caller.tenant);
      if (verb === "cancelTask" || verb === "cancelAnyTask")
        asked.add(`${caller.tenant} ${input.id}`);
    },
    answered: ({ verb, answer, answeredMs }) => {
      if ((verb !== "cancelTask" && verb !== "cancelAnyTask") || !answer.ok) return;
      acknowledgedMs.set(answer.value.id, answeredMs);
    },
    event: ({ kind, id, before, after }) => {
      if (kind === "remove") acknowledgedMs.delete(id);
      if (kind === "claim" && acknowledgedMs.has(id)) report(`${id} was cancelled and is claimed`);
      if (before === undefined || after === undefined) return;
      const comesBack = after.place.in !== "leased" && after.place.in !== "done";
      if (before.cancelMs !== 0 && comesBack) report(`${id} was to end and is ${after.place.in}`);
      const isCancelled = after.cancelMs !== 0 || after.error === "CANCELLED";
      const { tenantId } = after;
      if (isCancelled && !asked.has(tenantId) && !asked.has(`${tenantId} ${id}`)) {
        report(`${id} is cancelled, and nobody asked for it`);
      }
    },
    recovered: ({ lost, mayHaveLost }) => {
      for (const { events } of lost) {
        for (const { id, before, after } of events) {
          const ms = acknowledgedMs.get(id);
          // What follows from it later is not what was acknowledged.
          const isOver = after?.error === "CANCELLED" && before?.error !== "CANCELLED";
          const wasAsked = before?.cancelMs === 0 && (after?.cancelMs !== 0 || isOver);
          if (ms === undefined || !wasAsked) continue;
          if (!mayHaveLost(ms)) report(`that ${id} was cancelled is lost`);
          acknowledgedMs.delete(id);
        }
      }
    },
    ended: ({ tasks }) => {
      for (const { id, cancelMs } of tasks.values()) {
        if (cancelMs !== 0) report(`${id} was to be taken away at ${cancelMs}, and was not`);
      }
    },
  };
};
