/** What administrators do to one task, which they name by its id or by a part of it. */
import type { Task } from "@codeq/queue";
import type { Acted, TaskAction } from "../broker/task-actions.ts";
import { type Answer, type Call, type Operation, refusal, type Server } from "./operation.ts";
import { overQuota } from "./over-quota.ts";
import { wholeId } from "./whole-id.ts";

export interface TaskInput {
  readonly id: string;
}

export const replayTask: Operation<TaskInput, Task> = actOnTask("replay_task", { kind: "replay" });
export const deleteTask: Operation<TaskInput, Task> = actOnTask("delete_task", { kind: "delete" });

function actOnTask(name: string, action: TaskAction): Operation<TaskInput, Task> {
  return {
    name,
    access: "admin",
    scope: undefined,
    rate: { scope: "admin", operation: "tasks" },
    audit: { of: "all", target: ({ id }) => id, detail: ({ id }) => id },
    run: (server, call, { id }) => act(server, call, id, action),
  };
}

async function act(
  server: Server,
  call: Call,
  text: string,
  action: TaskAction,
): Promise<Answer<Task>> {
  const id = await wholeId(server, call, text);
  if (!id.ok) return id;
  const { tenantId } = call.identity;
  return answerOfAction(server, await server.queue.act({ tenantId, id: id.value }, action));
}

export function answerOfAction(server: Pick<Server, "events">, acted: Acted): Answer<Task> {
  if (acted.ok) return { ok: true, value: acted.task };
  if (acted.code === "quota_exceeded") return overQuota(server, acted.exceeded);
  return refusal(acted.code === "task_unknown" ? "not_found" : acted.code);
}
