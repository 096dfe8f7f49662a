/**
 * An idempotency key of a tenant stands for one task as long as that task exists and as long as the server keeps keys,
 * also when the task was deleted before. The same request again gets that task; another request under the key is
 * refused, or gets that task if it says so.
 */
import { queueOf, type Task } from "@codeq/queue";
import { payloadKey } from "../../../packages/server/src/core/store/keys.ts";
import type { Answer } from "../../../packages/server/src/edge/operation.ts";
import type {
  CreatedTask,
  CreateTaskInput,
} from "../../../packages/server/src/features/tasks/create-task.ts";
import type { MakeChecker } from "./checker.ts";

export const oneTaskPerKey: MakeChecker = ({ world, report }) => {
  const { ledger } = world;
  const lifeMs = world.plan.config.idempotencySeconds * 1000;
  const byKey = new Map<string, Task>();
  /** Tasks that were deleted, and not lost with the end of the log. */
  const removed = new Set<string>();
  /** They may be in another queue now, with another payload. */
  const edited = new Set<string>();
  const nameOf = ({ tenantId, idempotencyKey }: Task): string => `${tenantId} ${idempotencyKey}`;
  const checkAnswer = (input: CreateTaskInput, answer: Answer<CreatedTask>): void => {
    if (input.idempotencyKey === "" || !answer.ok) return;
    const { task, replayed } = answer.value;
    if (task.idempotencyKey !== input.idempotencyKey) report(`${task.id} has another key`);
    if (edited.has(task.id) || input.idempotencyMode === "first") return;
    if (queueOf(task.command) !== queueOf(input.command)) {
      report(`${task.id} was the answer to a request for ${input.command}`);
    }
    const payload = task.payload ?? ledger.keys.get(payloadKey(task.id))?.toString();
    if (replayed && payload !== undefined && payload !== input.payload) {
      report(`${task.id} was the answer to a request with another payload`);
    }
  };
  const isStillKept = (task: Task): boolean =>
    ledger.tasks.has(task.id) ||
    (removed.has(task.id) && task.createdMs + lifeMs > world.wallMsMax);
  return {
    invoked: ({ verb, input }) => {
      if (verb === "editTask") edited.add(input.id);
    },
    event: ({ kind, id, after }) => {
      // By a job that moves tasks.
      if (kind === "edit") edited.add(id);
      if (kind === "remove") removed.add(id);
      if (kind !== "create" || after === undefined || after.idempotencyKey === "") return;
      const other = byKey.get(nameOf(after));
      if (other !== undefined && isStillKept(other)) {
        report(`${id} and ${other.id} have the key ${nameOf(after)}`);
      }
      byKey.set(nameOf(after), after);
    },
    recovered: ({ lost }) => {
      for (const { kind, id } of lost.flatMap(({ events }) => events)) {
        if (kind === "remove") removed.delete(id);
      }
    },
    answered: (exchange) => {
      if (exchange.verb === "createTask") checkAnswer(exchange.input, exchange.answer);
      if (exchange.verb !== "createTasks" || !exchange.answer.ok) return;
      for (const [position, each] of exchange.answer.value.entries()) {
        const input = exchange.input[position];
        if (input !== undefined) checkAnswer(input, each);
      }
    },
  };
};
