/** Applies the topic of a queue to its tasks. */
import { limits } from "@codeq/protocol";
import { clampPriority } from "@codeq/queue";
import type { Topic } from "../store/topic-record.ts";
import type { NotAllowedPriority } from "./verbs.ts";

/** The priority of a new task: an allowed one, and the lowest for a task that names none. */
export function allowedPriority({ policy }: Topic, asked: number): number | NotAllowedPriority {
  const tiers = policy.priorityTiers.filter((tier) => tier <= limits.priorityMax);
  const priority = clampPriority(asked);
  if (policy.priorityTiers.includes(priority)) return priority;
  if (priority === 0) return lowest(policy.priorityTiers);
  return { code: "priority_not_allowed", priority, tiers };
}

/** The same for a task that has to be taken. */
export function nearestPriority({ policy }: Topic, asked: number): number {
  return policy.priorityTiers.includes(asked) ? asked : lowest(policy.priorityTiers);
}

/** Tiers may be above what tasks have. */
function lowest([tier = 0]: readonly number[]): number {
  return Math.min(tier, limits.priorityMax);
}
