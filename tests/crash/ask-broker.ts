/** The verbs of a broker for whoever waits for one answer: a promise that a refusal rejects. */
import { Claim, type ClaimRequest } from "../../packages/server/src/core/broker/claim.ts";
import type { Queue } from "../../packages/server/src/core/broker/queue.ts";
import type { ClaimedTask, Refused, Waiter } from "../../packages/server/src/core/broker/verbs.ts";

export function ask<Answer>(verb: (waiter: Waiter<Answer>) => void): Promise<Answer> {
  return new Promise((resolve, reject) => {
    verb({ durable: resolve, refused: reject });
  });
}

class AskedClaim extends Claim {
  readonly #waiter: Waiter<readonly ClaimedTask[]>;

  constructor(request: ClaimRequest, waiter: Waiter<readonly ClaimedTask[]>) {
    super(request);
    this.#waiter = waiter;
  }

  durable(tasks: readonly ClaimedTask[]): void {
    this.#waiter.durable(tasks, 0);
  }

  refused(why: Refused): void {
    this.#waiter.refused(why, 0);
  }
}

export function claim(queue: Queue, request: ClaimRequest): Promise<readonly ClaimedTask[]> {
  return ask((waiter) => queue.claim(new AskedClaim(request, waiter)));
}
