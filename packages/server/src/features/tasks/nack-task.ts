/** The worker could not finish the task: it is retried later, or becomes a dead letter. */
import { limits } from "@codeq/protocol";
import type { Returned } from "@codeq/queue";
import { type Operation, refusal } from "../../edge/operation.ts";
import { type OwnedTaskInput, ownedTask } from "../../edge/owned-task.ts";
import { answerOf } from "../../edge/refusal-of.ts";

export interface NackTaskInput extends OwnedTaskInput {
  /** 0 or less for the backoff policy. */
  readonly delaySeconds: number;
  readonly reason: string;
}

export interface NackedTask {
  readonly buried: boolean;
  readonly delaySeconds: number;
}

export const nackTask: Operation<NackTaskInput, NackedTask> = {
  name: "nack_task",
  access: "worker",
  scope: "codeq:nack",
  run: async (server, call, input) => {
    if (input.reason.length > limits.reasonCharsMax) {
      const max = limits.reasonCharsMax;
      return refusal("invalid_argument", `invalid 'reason' (at most ${max} characters)`);
    }
    const answer = await answerOf<Returned>(server, (waiter) => {
      server.queue.nack(ownedTask(call, input), input, waiter);
      return undefined;
    });
    if (!answer.ok) return answer;
    const { buried, delaySeconds } = answer.value;
    return { ok: true, value: { buried, delaySeconds } };
  },
};
