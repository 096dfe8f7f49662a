/** Changes a waiting task: its queue, its priority, its payload, or when it may be claimed. */
import { limits } from "@codeq/protocol";
import type { Task } from "@codeq/queue";
import type { TaskEdit } from "../../core/search/task-actions.ts";
import { type Answer, type Operation, refusal, type Server } from "../../edge/operation.ts";
import { payloadProblem, visibleMs } from "../tasks/create-task.ts";
import { act, type TaskInput } from "./act-on-task.ts";

/** What is left out stays as it is. */
export interface EditTaskInput extends TaskInput {
  readonly command: string | undefined;
  readonly priority: number | undefined;
  /** JSON text. */
  readonly payload: string | undefined;
  /** RFC 3339. Wins over the delay. */
  readonly runAt: string | undefined;
  readonly delaySeconds: number | undefined;
}

export const editTask: Operation<EditTaskInput, Task> = {
  name: "edit_task",
  access: "admin",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: { of: "all", target: describe, detail: ({ id }) => id },
  run: async (server, call, input) => {
    const edit = editOf(server, input);
    return edit.ok ? act(server, call, input.id, { kind: "edit", edit: edit.value }) : edit;
  },
};

const names = ["command", "priority", "payload", "runAt", "delaySeconds"] as const;

/** The task and which of its fields; payloads are not for the audit trail. */
function describe(input: EditTaskInput): string {
  const given = names.filter((name) => input[name] !== undefined);
  const said = given.map((name) => (name === "payload" ? name : `${name}=${input[name]}`));
  return [input.id, ...said].join(" ");
}

function editOf(server: Server, input: EditTaskInput): Answer<TaskEdit> {
  const { command, priority, payload, runAt, delaySeconds } = input;
  if (names.every((name) => input[name] === undefined)) {
    return refusal("invalid_argument", `nothing to change: pass one of ${names.join(", ")}`);
  }
  if (command !== undefined && !limits.commandPattern.test(command)) {
    return refusal("invalid_command");
  }
  const bytes = Buffer.byteLength(payload ?? "");
  const problem = payloadProblem(server, bytes);
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
      payload: payload === undefined ? undefined : { text: payload, bytes },
    },
  };
}
