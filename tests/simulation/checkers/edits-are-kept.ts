/**
 * A task that was edited is delivered with what was said: from the queue, with the priority and with
 * the payload of the last edit, and not before its new time. Only an administrator of its tenant edits
 * it, or moves it with a job, and only while nobody has it.
 */
import { queueOf, type Task, type TaskId } from "@codeq/queue";
import type { EditTaskInput } from "../../../packages/server/src/features/task-admin/act-on-task.ts";
import type { MakeChecker } from "./checker.ts";

interface Said {
  readonly input: EditTaskInput;
  readonly task: Task;
  readonly invokedMs: number;
  readonly answeredMs: number;
}

export const editsAreKept: MakeChecker = ({ world, report }) => {
  const asked = new Set<string>();
  /** Tenants that moved tasks with a job. */
  const moving = new Set<string>();
  /** Of each task when an edit of it was last asked for, whatever came of that. */
  const lastAskedMs = new Map<string, number>();
  const last = new Map<TaskId, Said>();
  const checkDelivery = (task: Task, payload: string, { input, task: said }: Said): void => {
    const wrong: string[] = [];
    const mayBeMoved = moving.has(task.tenantId);
    if (!mayBeMoved && queueOf(task.command) !== queueOf(said.command)) {
      wrong.push(`of ${task.command}`);
    }
    if (task.priority !== said.priority) wrong.push(`with priority ${task.priority}`);
    if (input.payload !== undefined && payload !== input.payload)
      wrong.push("with a payload of before");
    if (wrong.length > 0) report(`${task.id} was edited and is delivered ${wrong.join(", ")}`);
  };
  return {
    invoked: ({ verb, caller, input, invokedMs }) => {
      if (verb === "createJob" && input.action === "move") moving.add(caller.tenant);
      if (verb !== "editTask") return;
      asked.add(`${caller.tenant} ${input.id}`);
      lastAskedMs.set(input.id, invokedMs);
    },
    answered: (exchange) => {
      if (!exchange.answer.ok) return;
      if (exchange.verb === "editTask") {
        const { input, invokedMs, answeredMs } = exchange;
        const task = exchange.answer.value;
        last.set(task.id, { input, task, invokedMs, answeredMs });
      }
      if (exchange.verb !== "claimTasks") return;
      for (const { task, payload } of exchange.answer.value) {
        const said = last.get(task.id);
        // Of two edits at once nobody can tell which one was the last.
        const isClear = said !== undefined && lastAskedMs.get(task.id) === said.invokedMs;
        if (isClear && said.answeredMs <= exchange.invokedMs) checkDelivery(task, payload, said);
      }
    },
    event: ({ kind, id, before, after }) => {
      if (kind === "remove") last.delete(id);
      if (before === undefined || after === undefined) return;
      const isEdited =
        before.command !== after.command || before.priority !== after.priority || kind === "edit";
      const isAsked = asked.has(`${after.tenantId} ${id}`) || moving.has(after.tenantId);
      if (isEdited && !isAsked) report(`${id} was edited by nobody`);
      if (isEdited && before.place.in === "leased")
        report(`${id} was edited while a worker has it`);
      const said = last.get(id)?.task.place;
      if (
        kind !== "claim" ||
        said?.in !== "delayed" ||
        after.leaseToken !== before.leaseToken + 1
      ) {
        return;
      }
      const isClear = lastAskedMs.get(id) === last.get(id)?.invokedMs;
      if (isClear && world.wallMsMax < said.dueMs) {
        report(`${id} was put off until ${said.dueMs} and is claimed before`);
      }
    },
    recovered: ({ lost, mayHaveLost }) => {
      for (const { events } of lost) {
        for (const { id, kind } of events) {
          const said = last.get(id);
          if (said === undefined) continue;
          // What was asked for after it may be what is lost.
          const isClear = lastAskedMs.get(id) === said.invokedMs;
          if (kind === "edit" && isClear && !mayHaveLost(said.answeredMs)) {
            report(`an edit of ${id} is lost`);
          }
          last.delete(id);
        }
      }
    },
  };
};
