/** The verbs of a broker for whoever waits for one answer: a promise that a refusal rejects. */

import type { Broker } from "../../packages/server/src/core/broker/broker.ts";
import { Claim, type ClaimRequest } from "../../packages/server/src/core/broker/claims/claim.ts";
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

export function claim(broker: Broker, request: ClaimRequest): Promise<readonly ClaimedTask[]> {
  return ask((waiter) => broker.claim(new AskedClaim(request, waiter)));
}
