/**
 * When requests are served. A connection has one request in a turn of the event loop, so that a connection with many
 * requests does not delay the others. Connections whose callers were refused again and again are served later and
 * later, few of them in a turn, and are closed in the end.
 */
import type { Clock } from "../../core/clock.ts";
import type { Connection } from "../connections.ts";

/** Refusals without a request of an authenticated caller in between: that many are free, and that many are the end. */
const freeRefusals = 8;
const refusalsMax = 64;
const delayMs = 100;
/** Requests of refused callers that are served in one turn, of all connections together. */
const refusedPerTurn = 4;

type Caller = Pick<Connection, "refusals">;

export class FairTurns {
  readonly #clock: Clock;
  /** The connections that had a request in this turn, with the requests that wait for the next turns. */
  readonly #served: Map<Caller, (() => void)[]> = new Map();
  #isScheduled = false;
  readonly #refused: (() => void)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Runs the request now, or in a later turn. */
  take(connection: Caller, run: () => void): void {
    const waiting = this.#served.get(connection);
    if (waiting !== undefined) {
      waiting.push(run);
      return;
    }
    this.#served.set(connection, []);
    this.#schedule();
    this.#start(connection, run);
  }

  /** Whether the connection should be closed after this answer. */
  static isOver({ refusals }: Caller): boolean {
    return refusals >= refusalsMax;
  }

  #start(connection: Caller, run: () => void): void {
    if (connection.refusals < freeRefusals) run();
    else this.#clock.after(delayMs, () => this.#later(run));
  }

  #later(run: () => void): void {
    this.#refused.push(run);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#next);
  }

  readonly #next = (): void => {
    this.#isScheduled = false;
    const served = [...this.#served];
    this.#served.clear();
    for (const [connection, [next, ...others]] of served) {
      if (next === undefined) continue;
      this.#served.set(connection, others);
      this.#start(connection, next);
    }
    for (const run of this.#refused.splice(0, refusedPerTurn)) run();
    if (this.#served.size > 0 || this.#refused.length > 0) this.#schedule();
  };
}
