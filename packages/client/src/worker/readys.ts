/**
 * The requests for tasks that the server holds. Together they ask for as many tasks as there are free
 * slots; the answer to one may have fewer, and then the rest is asked for again.
 */
import type { worker } from "@codeq/protocol/wire";

export interface ReadysParts {
  readonly commands: string[];
  readonly leaseSeconds: number;
  readonly send: (event: worker.WorkerEvent) => boolean;
}

const tasksPerReadyMax = 256;
/** More than one, so that the next tasks are on their way while these are worked on. */
const readysMax = 8;

export class Readys {
  readonly #parts: ReadysParts;
  /** How many tasks each asked for, oldest first. */
  #held: number[] = [];
  #asked = 0;

  constructor(parts: ReadysParts) {
    this.#parts = parts;
  }

  ask(freeSlots: number): void {
    while (this.#asked < freeSlots && this.#held.length < readysMax) {
      const count = Math.min(freeSlots - this.#asked, tasksPerReadyMax);
      this.#held.push(count);
      this.#asked += count;
      const { commands, leaseSeconds, send } = this.#parts;
      send({ case: "ready", value: { commands, leaseSeconds, count } });
    }
  }

  /** Readys are served in the order in which they were sent. */
  answered(): void {
    this.#asked -= this.#held.shift() ?? 0;
  }

  /** The conversation ended, and they with it. */
  lost(): void {
    this.#held = [];
    this.#asked = 0;
  }
}
