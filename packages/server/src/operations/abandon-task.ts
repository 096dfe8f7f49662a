/** The worker gives the task back at once. Interrupted work is not held against the task. */
import { type Operation, refusal } from "./operation.ts";
import { type OwnedTaskInput, ownedTask } from "./owned-task.ts";

export interface AbandonTaskInput extends OwnedTaskInput {
  readonly interrupted: boolean;
}

export const abandonTask: Operation<AbandonTaskInput, { readonly buried: boolean }> = {
  name: "abandon_task",
  access: "worker",
  scope: "codeq:abandon",
  run: async (server, call, input) => {
    const outcome = server.broker.abandon(ownedTask(call, input), input);
    if (!outcome.ok) return refusal(outcome.code);
    await outcome.value.done;
    const { task, buried } = outcome.value.value;
    if (buried) server.events.taskEnded(task);
    return { ok: true, value: { buried } };
  },
};
