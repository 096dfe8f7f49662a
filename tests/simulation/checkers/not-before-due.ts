/** A task with a time of its own is not claimable before the wall clock has shown that time. */
import type { Task } from "@codeq/queue";
import type { CreateTaskInput } from "../../../packages/server/src/features/tasks/create-task.ts";
import type { MakeChecker } from "./checker.ts";

export const notBeforeDue: MakeChecker = ({ world, report }) => {
  const checkCreated = (input: CreateTaskInput, task: Task): void => {
    if (input.runAt !== "" || input.delaySeconds === 0) return;
    const dueMs = task.createdMs + input.delaySeconds * 1000;
    if (task.place.in !== "delayed" || task.place.dueMs !== dueMs) {
      report(`${task.id} was to wait until ${dueMs} and is ${JSON.stringify(task.place)}`);
    }
  };
  /** Tasks that an administrator may have made ready before their time. */
  const hurried = new Set<string>();
  return {
    invoked: ({ verb, caller, input }) => {
      if (verb !== "editTask") return;
      if (input.runAt !== undefined || input.delaySeconds !== undefined) {
        hurried.add(`${caller.tenant} ${input.id}`);
      }
    },
    answered: (exchange) => {
      if (exchange.verb === "createTask" && exchange.answer.ok && !exchange.answer.value.replayed) {
        checkCreated(exchange.input, exchange.answer.value.task);
      }
      if (exchange.verb !== "createTasks" || !exchange.answer.ok) return;
      for (const [position, each] of exchange.answer.value.entries()) {
        const input = exchange.input[position];
        if (each.ok && !each.value.replayed && input !== undefined) {
          checkCreated(input, each.value.task);
        }
      }
    },
    event: ({ kind, id, before, after }) => {
      if (kind !== "promote" || before?.place.in !== "delayed" || after === undefined) return;
      if (hurried.has(`${after.tenantId} ${id}`)) return;
      const { dueMs } = before.place;
      if (after.updatedMs < dueMs || world.wallMsMax < dueMs) {
        report(`${id} was due at ${dueMs} and made ready at ${after.updatedMs}`);
      }
    },
  };
};
