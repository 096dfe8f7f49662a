/** Applies the topic of a queue to its tasks. */
import { limits } from "@codeq/protocol";
import { clampPriority, type Task } from "@codeq/queue";
import type { Topic } from "../../records/topic-record.ts";
import type { TaskAction } from "../../search/task-actions.ts";
import type { NotAllowedPriority } from "../verbs.ts";

/** The priority of a new task: the requested one if the topic allows it, the lowest for a task without one. */
export function allowedPriority({ policy }: Topic, asked: number): number | NotAllowedPriority {
  const tiers = policy.priorityTiers.filter((tier) => tier <= limits.priorityMax);
  const priority = clampPriority(asked);
  if (policy.priorityTiers.includes(priority)) return priority;
  if (priority === 0) return lowest(policy.priorityTiers);
  return { code: "priority_not_allowed", priority, tiers };
}

/** The same for a task that must not be refused. */
export function nearestPriority({ policy }: Topic, asked: number): number {
  return policy.priorityTiers.includes(asked) ? asked : lowest(policy.priorityTiers);
}

/** The action with a priority that the topic of the task's queue, or of its new queue, allows. */
export function withAllowedPriority(
  topicOf: (of: Pick<Task, "tenantId" | "command">) => Topic | undefined,
  task: Task,
  action: TaskAction,
): TaskAction | NotAllowedPriority {
  if (action.kind !== "edit" && action.kind !== "replayAs") return action;
  const { command, priority: asked } = action.kind === "edit" ? action.edit : action.changes;
  if (command === undefined && asked === undefined) return action;
  const topic = topicOf({ tenantId: task.tenantId, command: command ?? task.command });
  if (topic === undefined) return action;
  const priority =
    asked === undefined ? nearestPriority(topic, task.priority) : allowedPriority(topic, asked);
  if (typeof priority === "object") return priority;
  return action.kind === "edit"
    ? { ...action, edit: { ...action.edit, priority } }
    : { ...action, changes: { ...action.changes, priority } };
}

/** Tiers may be above the highest priority of tasks. */
function lowest([tier = 0]: readonly number[]): number {
  return Math.min(tier, limits.priorityMax);
}
