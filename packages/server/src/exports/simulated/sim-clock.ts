/**
 * Time that moves only in `advance`. Timers that are due run one after the other, in the order
 * of their times and then in the order they were set, and everything that follows from one (promises
 * and deferred turns) happens before the next, as it would on a machine that is fast enough.
 *
 * The wall clock and the monotonic clock move together in `advance`; `stepWall` moves the wall clock
 * alone, as an operator or a time server does. Timers count on the monotonic clock.
 */
interface Timer {
  readonly dueMs: number;
  readonly order: number;
  readonly run: () => void;
}

export interface SimClockOptions {
  readonly wallMs?: number;
  readonly monotonicMs?: number;
  /** Lets everything happen that needs no timer, before the next timer is due. */
  readonly settle?: () => Promise<void>;
}

/** A moment that looks like one in the output of a failed test. */
const wallMsDefault = 1_700_000_000_000;
/** Different from the wall clock, so that mixing up the two shows. */
const monotonicMsDefault = 5_000;
/** Turns of the event loop in which promises and deferred work come to rest. */
const settleTurns = 3;

export class SimClock {
  readonly #timers = new Set<Timer>();
  readonly #settle: () => Promise<void>;
  #wallMs: number;
  #monotonicMs: number;
  #lastOrder = 0;

  constructor(options: SimClockOptions = {}) {
    this.#wallMs = options.wallMs ?? wallMsDefault;
    this.#monotonicMs = options.monotonicMs ?? monotonicMsDefault;
    this.#settle = options.settle ?? settle;
  }

  nowMs(): number {
    return this.#wallMs;
  }

  monotonicMs(): number {
    return this.#monotonicMs;
  }

  /** Runs once after the delay; returns how to cancel it. */
  after(delayMs: number, run: () => void): () => void {
    this.#lastOrder += 1;
    const dueMs = this.#monotonicMs + Math.max(0, delayMs);
    const timer: Timer = { dueMs, order: this.#lastOrder, run };
    this.#timers.add(timer);
    return () => {
      this.#timers.delete(timer);
    };
  }

  /** Time left until the first timer; undefined when none is set. */
  get nextTimerMs(): number | undefined {
    const first = this.#first();
    return first === undefined ? undefined : Math.max(0, first.dueMs - this.#monotonicMs);
  }

  get timers(): number {
    return this.#timers.size;
  }

  /** Lets the time pass, with the timers that become due on the way, also those set meanwhile. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#monotonicMs + ms;
    await this.#settle();
    for (;;) {
      const timer = this.#first();
      if (timer === undefined || timer.dueMs > endMs) break;
      this.#moveTo(timer.dueMs);
      this.#timers.delete(timer);
      timer.run();
      await this.#settle();
    }
    this.#moveTo(endMs);
  }

  /** Lets the time pass while nothing runs; timers that became due run late, with the next advance. */
  stall(ms: number): void {
    this.#moveTo(this.#monotonicMs + ms);
  }

  /** Moves the wall clock alone, forward or back. */
  stepWall(ms: number): void {
    this.#wallMs += ms;
  }

  #moveTo(monotonicMs: number): void {
    const passedMs = Math.max(0, monotonicMs - this.#monotonicMs);
    this.#monotonicMs += passedMs;
    this.#wallMs += passedMs;
  }

  #first(): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.#timers) {
      if (first === undefined || comesBefore(timer, first)) first = timer;
    }
    return first;
  }
}

/** Lets everything that needs no timer happen: promises, and what was put off to a later turn. */
export async function settle(turns: number = settleTurns): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) {
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

function comesBefore(a: Timer, b: Timer): boolean {
  return a.dueMs === b.dueMs ? a.order < b.order : a.dueMs < b.dueMs;
}
