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
    const of = ownedTask(call, input);
    const outcome = server.broker.abandon(of, input);
    if (!outcome.ok) return refusal(outcome.code);
    await outcome.value.done;
    const { task, buried } = outcome.value.value;
    const { workerId } = of.owner;
    if (buried) server.events.taskEnded(task, workerId);
    else {
      const how = task.handBacks > 0 ? "interrupted" : "abandoned";
      server.events.taskReleased(task, workerId, how);
    }
    return { ok: true, value: { buried } };
  },
};
