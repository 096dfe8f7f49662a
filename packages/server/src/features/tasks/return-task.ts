/**
 * A worker returns a task that it did not finish. An abandoned task is ready at once, and interrupted work does not
 * count as an attempt. After a nack the task is retried later, or becomes a dead letter.
 */
import { limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import type { Returned } from "@codeq/queue";
import { bindByHand } from "../../edge/bind.ts";
import { type OwnedTaskInput, ownedTask, type Refusal, refusal } from "../../edge/operation.ts";
import { answerOf } from "../../edge/refusal-of.ts";

export interface AbandonTaskInput extends OwnedTaskInput {
  readonly interrupted: boolean;
}

export const abandonTask = bindByHand<AbandonTaskInput, { readonly buried: boolean }>(
  api.work.abandonTask,
  {
    run: async (server, call, input) => {
      const answer = await answerOf<Returned>(server, (waiter) => {
        server.broker.abandon(ownedTask(call, input), input, waiter);
        return undefined;
      });
      return answer.ok ? { ok: true, value: { buried: answer.value.buried } } : answer;
    },
  },
);

export interface NackTaskInput extends OwnedTaskInput {
  /** 0 or less for the backoff policy. */
  readonly delaySeconds: number;
  readonly reason: string;
  readonly stack?: string | undefined;
  /** 0 to count an attempt. */
  readonly holdMs?: number | undefined;
  readonly used?: number | undefined;
}

export interface NackedTask {
  readonly buried: boolean;
  readonly delaySeconds: number;
}

export const nackTask = bindByHand<NackTaskInput, NackedTask>(api.work.nackTask, {
  run: async (server, call, input) => {
    if (input.reason.length > limits.reasonCharsMax) {
      const max = limits.reasonCharsMax;
      return refusal("invalid_argument", `invalid 'reason' (at most ${max} characters)`);
    }
    const problem = problemOfUsed(input) ?? problemOfHold(input);
    if (problem !== undefined) return problem;
    const { delaySeconds: askedSeconds, reason, holdMs, used } = input;
    const request = {
      delaySeconds: askedSeconds,
      reason,
      stack: cutStack(input.stack),
      holdMs,
      used,
    };
    const answer = await answerOf<Returned>(server, (waiter) => {
      server.broker.nack(ownedTask(call, input), request, waiter);
      return undefined;
    });
    if (!answer.ok) return answer;
    const { buried, delaySeconds } = answer.value;
    return { ok: true, value: { buried, delaySeconds } };
  },
});

/** It is for people, so what is too long is cut and not refused. */
export function cutStack(stack: string | undefined): string | undefined {
  return stack?.slice(0, limits.stackCharsMax);
}

function problemOfHold({ holdMs = 0 }: NackTaskInput): Refusal | undefined {
  const max = limits.holdSecondsMax;
  if (holdMs >= 0 && holdMs <= max * 1000) return undefined;
  return refusal("invalid_argument", `invalid 'holdSeconds' (0 to ${max})`);
}

export function problemOfUsed({ used = 0 }: { used?: number | undefined }): Refusal | undefined {
  const max = limits.laneUnitsMax;
  if (used >= 0 && used <= max) return undefined;
  return refusal("invalid_argument", `invalid 'used' (0 to ${max})`);
}
