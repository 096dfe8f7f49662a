/**
 * Only the worker of the latest claim may speak for a task, and a token of an earlier claim is
 * refused even when the same worker sends it. Tokens grow with every claim of a task.
 */
import type { TaskId } from "@codeq/queue";
import { type AnyRequest, namedTasks, touchedBy } from "../exchange.ts";
import type { MakeChecker } from "./checker.ts";

export const fencing: MakeChecker = ({ world, report }) => {
  const { ledger } = world;
  /** The newest token of each task when a request that names it was made. */
  const tokensAtRequest = new Map<number, Map<string, number>>();
  const isHolder = (
    id: TaskId,
    worker: string,
    tokens: { sent?: number | undefined; least: number },
  ) =>
    (ledger.versions.get(id) ?? []).some(({ task }) => {
      if (task?.place.in !== "leased" || task.place.workerId !== worker) return false;
      if (tokens.sent !== undefined && tokens.sent !== task.leaseToken) return false;
      return task.leaseToken >= tokens.least;
    });
  return {
    invoked: (request: AnyRequest) => {
      // Those who cancel need no lease.
      if (request.verb === "cancelTask" || request.verb === "cancelAnyTask") return;
      if (request.verb === "editTask") return;
      const tokens = new Map<string, number>();
      for (const id of touchedBy(request)) {
        tokens.set(id, ledger.tasks.get(id as TaskId)?.leaseToken ?? 0);
      }
      if (tokens.size > 0) tokensAtRequest.set(request.number, tokens);
    },
    answered: (exchange) => {
      const tokens = tokensAtRequest.get(exchange.number);
      tokensAtRequest.delete(exchange.number);
      if (tokens === undefined) return;
      for (const { id, leaseToken, answer } of namedTasks(exchange)) {
        if (!answer.ok) continue;
        // On a full disk a heartbeat is answered at once, also before its claim has reached the log.
        const least = tokens.get(id) ?? 0;
        const isAhead = leaseToken === undefined || leaseToken > least;
        const isFromMemory =
          exchange.verb === "extendLease" && !world.hasBeenOpenSince(exchange.invokedMs);
        if (isFromMemory && isAhead) continue;
        const { subject } = exchange.caller;
        if (!isHolder(id as TaskId, subject, { sent: leaseToken, least })) {
          report(`${exchange.verb} of ${id} by ${subject} with token ${leaseToken} was accepted`);
        }
      }
    },
    event: ({ kind, id, before, after }) => {
      if (kind !== "claim" || before === undefined || after === undefined) return;
      if (after.leaseToken <= before.leaseToken) report(`the token of ${id} did not grow`);
    },
  };
};
