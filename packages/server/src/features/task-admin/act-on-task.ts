/** Actions on one task: those of administrators, who may give a part of its id, and the cancellation by a producer. */
import { limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import { queueOf, type Task, type TaskId } from "@codeq/queue";
import type { Acted, TaskAction, TaskEdit } from "../../core/search/task-actions.ts";
import { bind, bindInput, type InputOf } from "../../edge/bind.ts";
import { shownTask } from "../../edge/hidden-payloads.ts";
import {
  type Answer,
  type Call,
  type Refusal,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { notAllowed, overQuota } from "../../edge/refusal-of.ts";
import { wholeId } from "../../edge/task-filter-input.ts";
import { payloadProblem, visibleMs } from "../tasks/create-task.ts";

interface TaskInput {
  readonly id: string;
}

const audit = { detail: ({ id }: Task) => id };

/** The task itself or, with changes, a new one that is linked to it. */
export const replayTask = bindInput(api.taskAdmin.replayTask, {
  run: (server, call, { id, ...changes }) => {
    if (Object.values(changes).every((value) => value === undefined)) {
      return act(server, call, id, { kind: "replay" });
    }
    const problem = problemOfChanges(server, changes);
    if (problem !== undefined) return problem;
    const { delaySeconds = 0, ...rest } = changes;
    const dueMs =
      delaySeconds > 0 ? server.clock.nowMs() + Math.round(delaySeconds * 1000) : undefined;
    return act(server, call, id, { kind: "replayAs", changes: { ...rest, visibleMs: dueMs } });
  },
  audit,
});

function problemOfChanges(
  server: Server,
  {
    command,
    payload = "",
  }: { readonly command?: string | undefined; readonly payload?: string | undefined },
): Refusal | undefined {
  if (command !== undefined && !limits.commandPattern.test(command)) {
    return refusal("invalid_command");
  }
  return payloadProblem(server, Buffer.byteLength(payload));
}

export const deleteTask = bind(api.taskAdmin.deleteTask, {
  run: (server, call, { id }) => act(server, call, id, { kind: "delete" }),
  audit,
  show: () => ({ status: 204, value: undefined }),
});

export const cancelAnyTask = bindInput(api.taskAdmin.cancelAnyTask, { run: cancel, audit });

export const cancelTask = bindInput(api.tasks.cancelTask, {
  run: async (server, call, input) => {
    if (input.id.length !== idChars) return refusal("not_found");
    const problem = await problemOfProducer(server, call, input.id as TaskId);
    return problem ?? cancel(server, call, input);
  },
});

/** Who may not create tasks of a command may not end them either. */
async function problemOfProducer(
  { broker }: Server,
  { identity: { tenantId, creates } }: Call,
  id: TaskId,
): Promise<Refusal | undefined> {
  if (creates === undefined) return undefined;
  const found = await broker.get(tenantId, id);
  if (found === undefined) return refusal("not_found");
  const isAllowed = creates.has(queueOf(found.task.command));
  return isAllowed ? undefined : refusal("event_type_not_allowed");
}

/** Producers know their tasks by whole ids. */
const idChars = 36;

async function cancel(
  server: Server,
  call: Call,
  { id, graceSeconds }: TaskInput & { readonly graceSeconds: number },
): Promise<Answer<Task>> {
  const answer = await act(server, call, id, { kind: "cancel", graceMs: graceSeconds * 1000 });
  if (answer.ok && answer.value.place.in === "leased") {
    const { id: taskId, tenantId, place } = answer.value;
    server.workers.sendCancelled(tenantId, place.workerId, taskId);
  }
  return answer;
}

export type EditTaskInput = InputOf<typeof api.taskAdmin.editTask>;

/** Changes a waiting task: its queue, its priority, its payload, or when it may be claimed. */
export const editTask = bindInput(api.taskAdmin.editTask, {
  run: async (server, call, input) => {
    const edit = editOf(server, input);
    return edit.ok ? act(server, call, input.id, { kind: "edit", edit: edit.value }) : edit;
  },
  audit: { ...audit, target: describe },
});

/** The task and which of its fields; payloads are not for the audit trail. */
function describe({ id, ...edit }: EditTaskInput): string {
  const given = Object.entries(edit).filter(([, value]) => value !== undefined);
  return [
    id,
    ...given.map(([name, value]) => (name === "payload" ? name : `${name}=${value}`)),
  ].join(" ");
}

function editOf(server: Server, { id: _, ...edit }: EditTaskInput): Answer<TaskEdit> {
  const { command, priority, payload, runAt, delaySeconds } = edit;
  if (Object.values(edit).every((value) => value === undefined)) {
    const names = Object.keys(api.taskAdmin.editTask.body.fields);
    return refusal("invalid_argument", `nothing to change: pass one of ${names.join(", ")}`);
  }
  const problem = problemOfChanges(server, edit);
  if (problem !== undefined) return problem;
  const nowMs = server.clock.nowMs();
  const due = visibleMs(nowMs, { runAt: runAt ?? "", delaySeconds: delaySeconds ?? 0 });
  if (!due.ok) return due;
  const isTimed = runAt !== undefined || delaySeconds !== undefined;
  return {
    ok: true,
    value: {
      command,
      priority,
      dueMs: isTimed ? (due.value ?? nowMs) : undefined,
      payload:
        payload === undefined ? undefined : { text: payload, bytes: Buffer.byteLength(payload) },
    },
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
  const acted = await server.broker.act({ tenantId, id: id.value }, action);
  const answer = answerOfAction(server, acted);
  return answer.ok ? { ok: true, value: shownTask(call, answer.value) } : answer;
}

export function answerOfAction(server: Pick<Server, "events">, acted: Acted): Answer<Task> {
  if (acted.ok) return { ok: true, value: acted.task };
  if (acted.code === "quota_exceeded") return overQuota(server, acted.exceeded);
  if (acted.code === "priority_not_allowed") return notAllowed(acted);
  if (acted.code === "unique_key_held") return keyTaken(acted);
  // Only bulk jobs ask whether it was done already.
  if (acted.code === "task_unknown" || acted.code === "already_done") return refusal("not_found");
  return refusal(acted.code);
}

function keyTaken({ code, key, taskId }: Extract<Acted, { readonly key: string }>): Refusal {
  const text = `task ${taskId} has the unique key ${JSON.stringify(key)}; wait for its end or cancel it, then ask again`;
  return { ...refusal(code, text), details: { key, taskId } };
}
