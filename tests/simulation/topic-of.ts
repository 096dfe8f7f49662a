/** What the log says of the topic of a task's queue. */
import { queueOf, type Task } from "@codeq/queue";
import {
  decodeTopic,
  type TopicPolicy,
} from "../../packages/server/src/core/records/topic-record.ts";
import { topicKey } from "../../packages/server/src/core/store/keys.ts";
import type { World } from "./world.ts";

type InQueue = Pick<Task, "command" | "tenantId">;

export function topicPolicyOf(
  { ledger }: World,
  { command, tenantId }: InQueue,
): TopicPolicy | undefined {
  const name = queueOf(command);
  const bytes = ledger.keys.get(topicKey(name, tenantId));
  return bytes === undefined
    ? undefined
    : decodeTopic({ name, tenantId }, bytes.toString())?.policy;
}

/** How many leases the queue has, and how many it may have; undefined without a limit. */
export function leasesOf(
  world: World,
  { command, tenantId }: InQueue,
): { readonly leases: number; readonly max: number } | undefined {
  const max = topicPolicyOf(world, { command, tenantId })?.maxConsumers ?? 0;
  if (max === 0) return undefined;
  let leases = 0;
  for (const task of world.ledger.tasks.values()) {
    if (task.place.in !== "leased" || task.tenantId !== tenantId) continue;
    if (queueOf(task.command) === queueOf(command)) leases += 1;
  }
  return { leases, max };
}
