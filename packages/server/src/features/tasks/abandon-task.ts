/**
 * The worker gives the task back; the task is ready at once. Interrupted work does not count as an attempt.
 */
import type { Returned } from "@codeq/queue";
import type { Operation } from "../../edge/operation.ts";
import { type OwnedTaskInput, ownedTask } from "../../edge/owned-task.ts";
import { answerOf } from "../../edge/refusal-of.ts";

export interface AbandonTaskInput extends OwnedTaskInput {
  readonly interrupted: boolean;
}

export const abandonTask: Operation<AbandonTaskInput, { readonly buried: boolean }> = {
  name: "abandon_task",
  access: "worker",
  scope: "codeq:abandon",
  run: async (server, call, input) => {
    const answer = await answerOf<Returned>(server, (waiter) => {
      server.queue.abandon(ownedTask(call, input), input, waiter);
      return undefined;
    });
    return answer.ok ? { ok: true, value: { buried: answer.value.buried } } : answer;
  },
};
