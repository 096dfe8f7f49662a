/**
 * Admits calls, or tells when to retry. A call counts as one before its body is read; an operation that
 * finds more items counts the rest. A refused call counts only as a request of its tenant.
 */

import type { Allowance, Limiter, LimitState } from "../core/limiter/limiter.ts";
import type { Events } from "../telemetry/events.ts";
import type { Identity } from "./access/identity.ts";
import { type Admission, type Answer, type Rate, type Refusal, refusal } from "./operation.ts";
import { overQuota, wholeSeconds } from "./over-quota.ts";

/** Of a call that nothing limits. */
const free: Admission = {
  countAs: () => undefined,
  countUpTo: (tasks) => tasks,
  takeBack: () => {},
  limits: () => [],
};
const letIn: Answer<Admission> = { ok: true, value: free };

export class Gate {
  readonly #limiter: Limiter;
  readonly #events: Events;

  constructor(parts: { readonly limiter: Limiter; readonly events: Events }) {
    this.#limiter = parts.limiter;
    this.#events = parts.events;
  }

  admit(rate: Rate | undefined, identity: Identity): Answer<Admission> {
    const requests = this.#limiter.requestsOf(identity.tenantId);
    const allowance = rate && this.#limiter.of(rate.scope, identity);
    if (requests === undefined && allowance === undefined) return letIn;
    const waitMs = requests?.take(1) ?? 0;
    if (requests !== undefined && waitMs > 0) return this.#tooManyRequests(requests, waitMs);
    if (rate === undefined || allowance === undefined) {
      return { ok: true, value: { ...free, limits: () => requests?.state() ?? [] } };
    }
    const call = new CountedCall({ allowance, requests, rate, events: this.#events });
    return call.countAs(1) ?? { ok: true, value: call };
  }

  #tooManyRequests(requests: Allowance, waitMs: number): Refusal {
    const limit = requests.burst;
    const exceeded = { quota: "requestsPerSecond", limit, current: limit } as const;
    const refused = overQuota({ events: this.#events }, exceeded, waitMs);
    return { ...refused, limits: requests.state() };
  }
}

class CountedCall implements Admission {
  readonly #allowance: Allowance;
  readonly #requests: Allowance | undefined;
  readonly #rate: Rate;
  readonly #events: Events;
  #counted = 0;

  constructor(parts: {
    readonly allowance: Allowance;
    readonly requests: Allowance | undefined;
    readonly rate: Rate;
    readonly events: Events;
  }) {
    this.#allowance = parts.allowance;
    this.#requests = parts.requests;
    this.#rate = parts.rate;
    this.#events = parts.events;
  }

  countAs(tasks: number): Refusal | undefined {
    const { burst } = this.#allowance;
    const waitMs =
      tasks > burst ? Number.POSITIVE_INFINITY : this.#allowance.take(tasks - this.#counted);
    if (waitMs === 0) {
      this.#counted = tasks;
      return undefined;
    }
    this.takeBack(this.#counted);
    return waitMs === Number.POSITIVE_INFINITY ? tooLarge(tasks, burst) : this.#tooFast(waitMs);
  }

  countUpTo(tasks: number): number {
    this.#counted += this.#allowance.takeUpTo(tasks - this.#counted);
    return this.#counted;
  }

  takeBack(tasks: number): void {
    this.#allowance.giveBack(tasks);
    this.#counted -= tasks;
  }

  limits(): readonly LimitState[] {
    return [...this.#allowance.state(), ...(this.#requests?.state() ?? [])];
  }

  #tooFast(retryAfterMs: number): Refusal {
    const { scope, operation } = this.#rate;
    this.#events.rateLimited(scope, operation);
    return {
      ...refusal("rate_limited"),
      details: { operation, retryAfterSeconds: wholeSeconds(retryAfterMs), scope },
      retryAfterMs,
      limits: this.limits(),
    };
  }
}

/** Waiting would not help, so this is not answered as something that passes. */
function tooLarge(tasks: number, burst: number): Refusal {
  const text = `a batch of ${tasks} is larger than the burst size of the rate limit; send at most ${burst}`;
  return refusal("invalid_argument", text);
}
