/** Actions of administrators on one task, given by its id or a part of the id. */
import { limits } from "@codeq/protocol";
import { queueOf, type Task, type TaskId } from "@codeq/queue";
import type { Acted, ReplayChanges, TaskAction } from "../../core/search/task-actions.ts";
import { shownTask } from "../../edge/hidden-payloads.ts";
import {
  type Answer,
  type Call,
  type Operation,
  type Refusal,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { notAllowed, overQuota } from "../../edge/refusal-of.ts";
import { wholeId } from "../../edge/whole-id.ts";

export interface TaskInput {
  readonly id: string;
}

export interface ReplayTaskInput extends TaskInput {
  /** What is different in a new task; without any of it the task itself is replayed. */
  readonly changes: Omit<ReplayChanges, "visibleMs"> & {
    readonly delaySeconds?: number | undefined;
  };
}

/** The task itself, or a new one that is linked to it. */
export const replayTask: Operation<ReplayTaskInput, Task> = {
  name: "replay_task",
  access: "admin",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: { of: "all", target: ({ id }) => id, detail: ({ id }) => id },
  run: (server, call, { id, changes }) => {
    if (Object.values(changes).every((value) => value === undefined)) {
      return act(server, call, id, { kind: "replay" });
    }
    const problem = problemOfChanges(server, changes);
    if (problem !== undefined) return problem;
    const { delaySeconds = 0, ...rest } = changes;
    const visibleMs = delaySeconds > 0 ? server.clock.nowMs() + delaySeconds * 1000 : undefined;
    return act(server, call, id, { kind: "replayAs", changes: { ...rest, visibleMs } });
  },
};

function problemOfChanges(
  server: Server,
  {
    command,
    priority = 0,
    maxAttempts = 1,
    delaySeconds = 0,
    payload = "",
  }: ReplayTaskInput["changes"],
): Refusal | undefined {
  if (command !== undefined && !limits.commandPattern.test(command)) {
    return refusal("invalid_command");
  }
  const ranges = { priority: [0, limits.priorityMax], maxAttempts: [1, limits.maxAttemptsMax] };
  const given = { priority, maxAttempts, delaySeconds };
  for (const [name, [min, max]] of Object.entries({
    ...ranges,
    delaySeconds: [0, limits.delaySecondsMax],
  }) as ["priority" | "maxAttempts" | "delaySeconds", [number, number]][]) {
    const value = given[name];
    if (value < min || value > max) {
      return refusal("invalid_argument", `invalid '${name}' (${min} to ${max})`);
    }
  }
  const { payloadBytesMax } = server.config;
  if (Buffer.byteLength(payload) > payloadBytesMax) {
    return refusal("payload_too_large", `payload is larger than ${payloadBytesMax} bytes`);
  }
  return undefined;
}

export const deleteTask: Operation<TaskInput, Task> = actOnTask("delete_task", { kind: "delete" });

export interface CancelTaskInput extends TaskInput {
  /** Undefined for the default. */
  readonly graceSeconds: number | undefined;
}

/** For administrators. */
export const cancelAnyTask: Operation<CancelTaskInput, Task> = {
  name: "cancel_any_task",
  access: "admin",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: { of: "all", target: ({ id }) => id, detail: ({ id }) => id },
  run: cancelTaskOf,
};

/** For producers. */
export const cancelTask: Operation<CancelTaskInput, Task> = {
  name: "cancel_task",
  access: "producer",
  scope: "codeq:create",
  rate: { scope: "producer", operation: "create_task" },
  run: async (server, call, input) => {
    if (input.id.length !== idChars) return refusal("not_found");
    const problem = await problemOfProducer(server, call, input.id as TaskId);
    return problem ?? cancelTaskOf(server, call, input);
  },
};

/** Who may not create tasks of a command may not end them either. */
async function problemOfProducer(
  { queue }: Server,
  { identity: { tenantId, creates } }: Call,
  id: TaskId,
): Promise<Refusal | undefined> {
  if (creates === undefined) return undefined;
  const found = await queue.get(tenantId, id);
  if (found === undefined) return refusal("not_found");
  const isAllowed = creates.has(queueOf(found.task.command));
  return isAllowed ? undefined : refusal("event_type_not_allowed");
}

/** Producers know their tasks by whole ids. */
const idChars = 36;

async function cancelTaskOf(
  server: Server,
  call: Call,
  { id, graceSeconds = limits.cancelGraceSecondsDefault }: CancelTaskInput,
): Promise<Answer<Task>> {
  const max = limits.cancelGraceSecondsMax;
  if (graceSeconds < 0 || graceSeconds > max) {
    return refusal("invalid_argument", `invalid 'graceSeconds' (0 to ${max})`);
  }
  const answer = await act(server, call, id, { kind: "cancel", graceMs: graceSeconds * 1000 });
  if (answer.ok && answer.value.place.in === "leased") {
    const { id: taskId, tenantId, place } = answer.value;
    server.workers.tellCancelled(tenantId, place.workerId, taskId);
  }
  return answer;
}

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

export async function act(
  server: Server,
  call: Call,
  text: string,
  action: TaskAction,
): Promise<Answer<Task>> {
  const id = await wholeId(server, call, text);
  if (!id.ok) return id;
  const { tenantId } = call.identity;
  const acted = await server.queue.act({ tenantId, id: id.value }, action);
  const answer = answerOfAction(server, acted);
  return answer.ok ? { ok: true, value: shownTask(call, answer.value) } : answer;
}

export function answerOfAction(server: Pick<Server, "events">, acted: Acted): Answer<Task> {
  if (acted.ok) return { ok: true, value: acted.task };
  if (acted.code === "quota_exceeded") return overQuota(server, acted.exceeded);
  if (acted.code === "priority_not_allowed") return notAllowed(acted);
  // Only bulk jobs ask whether it was done already.
  if (acted.code === "task_unknown" || acted.code === "already_done") return refusal("not_found");
  return refusal(acted.code);
}
