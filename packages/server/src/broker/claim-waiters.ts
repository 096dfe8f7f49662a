/**
 * Claims that found nothing and wait in line. A waiter stands in the line of every queue it asked
 * for; the one that has waited longest is served first. It leaves when it is served, when its time is
 * up, or when its caller goes away.
 */
import type { Clock } from "../clock.ts";
import type { QueueState, TenantState } from "./queue-state.ts";

export interface ClaimWaiter<Request = unknown, Served = unknown> {
  /** Position in line, over all lines. */
  readonly ticket: number;
  readonly request: Request;
  /** Ends the wait, with what was claimed or with nothing. */
  readonly finish: (served: Served | undefined) => void;
}

export interface WaitOptions<Request> {
  readonly request: Request;
  readonly tenant: TenantState;
  /** Undefined when any queue of the tenant will do. */
  readonly queues: readonly QueueState[] | undefined;
  /** Infinity for as long as the caller is there. */
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
}

export class ClaimWaiters<Request, Served> {
  readonly #clock: Clock;
  readonly #waiters: Set<ClaimWaiter<Request, Served>> = new Set();
  #lastTicket = 0;
  #slots = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How many lines the waiters stand in, over all queues. */
  get slots(): number {
    return this.#slots;
  }

  get size(): number {
    return this.#waiters.size;
  }

  wait(options: WaitOptions<Request>): Promise<Served | undefined> {
    return new Promise((resolve) => {
      const { signal } = options;
      const lines = options.queues?.map((queue) => queue.waiters) ?? [options.tenant.anyWaiters];
      const waiter: ClaimWaiter<Request, Served> = {
        ticket: ++this.#lastTicket,
        request: options.request,
        finish: (served) => {
          if (!this.#waiters.delete(waiter)) return;
          this.#count(options.tenant, -lines.length);
          for (const line of lines) line.delete(waiter as ClaimWaiter);
          cancelTimer();
          signal?.removeEventListener("abort", onAbort);
          resolve(served);
        },
      };
      const onAbort = (): void => waiter.finish(undefined);
      this.#waiters.add(waiter);
      this.#count(options.tenant, lines.length);
      for (const line of lines) line.add(waiter as ClaimWaiter);
      const isLimited = options.waitMs !== Number.POSITIVE_INFINITY;
      const cancelTimer = isLimited ? this.#clock.after(options.waitMs, onAbort) : () => {};
      signal?.addEventListener("abort", onAbort, { once: true });
      if (signal?.aborted) onAbort();
    });
  }

  /** Who has waited longest for work in this queue. */
  next(tenant: TenantState, queue: QueueState): ClaimWaiter<Request, Served> | undefined {
    const own = first(queue.waiters);
    const any = first(tenant.anyWaiters);
    const next = own === undefined || (any !== undefined && any.ticket < own.ticket) ? any : own;
    return next as ClaimWaiter<Request, Served> | undefined;
  }

  #count(tenant: TenantState, change: number): void {
    this.#slots += change;
    tenant.waiterSlots += change;
  }

  /** Ends every wait with nothing, for a shutdown. */
  finishAll(): void {
    for (const waiter of [...this.#waiters]) waiter.finish(undefined);
  }
}

/** Sets keep the order of arrival, so the first is the oldest. */
function first(line: ReadonlySet<ClaimWaiter>): ClaimWaiter | undefined {
  for (const waiter of line) return waiter;
  return undefined;
}
