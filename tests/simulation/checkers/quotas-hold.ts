/**
 * In the order of the log, no task is created or replayed and no lease begins while the tenant has all that its
 * quota allows. What was accepted may come back and end all the same, and go where its topic sends dead letters.
 */
import { queueOf, type Task, type TaskId } from "@codeq/queue";
import { quotaOf } from "../../../packages/server/src/config/quotas.ts";
import { topicPolicyOf } from "../topic-of.ts";
import type { World } from "../world.ts";
import type { MakeChecker } from "./checker.ts";

export const quotasHold: MakeChecker = ({ world, report }) => {
  const sum = (tenant: string, of: (task: Task) => number): number => {
    let total = 0;
    for (const task of world.ledger.tasks.values()) {
      if (task.tenantId === tenant) total += of(task);
    }
    return total;
  };
  const isPending = ({ place }: Task): number =>
    Number(place.in === "ready" || place.in === "delayed");
  return {
    event: ({ kind, id, before, after }) => {
      if (after === undefined) return;
      if (kind !== "create" && kind !== "claim" && kind !== "replay") return;
      if (isDeadLetterCopy(world, after)) return;
      const { tenantId: tenant } = after;
      const quota = quotaOf(world.plan.config.quotas, tenant);
      if (kind === "claim") {
        const leased = sum(tenant, ({ place }) => Number(place.in === "leased"));
        if (before?.place.in === "leased" || leased < quota.concurrentLeases) return;
        report(`${id} is claimed although ${tenant} has ${leased} of ${quota.concurrentLeases}`);
        return;
      }
      const pending = sum(tenant, isPending);
      if (pending >= quota.pendingTasks) {
        report(`${id} is created although ${tenant} has ${pending} of ${quota.pendingTasks}`);
      }
      if (kind === "replay") return;
      const bytes = sum(tenant, ({ storedBytes }) => storedBytes) + after.storedBytes;
      if (bytes > quota.storedBytes) {
        report(`${id} is created, and ${tenant} has ${bytes} bytes of ${quota.storedBytes}`);
      }
    },
  };
};

function isDeadLetterCopy(world: World, { repairs, command }: Task): boolean {
  const dead = world.ledger.tasks.get(repairs?.replayOf as TaskId);
  if (dead === undefined) return false;
  return topicPolicyOf(world, dead)?.deadLetterTopicRef === queueOf(command);
}
