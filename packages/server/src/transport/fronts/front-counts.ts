/**
 * The number of connections of all fronts, in shared memory. So the limit holds for all fronts together, and
 * the count of a front is known after the front has ended.
 */
import type { Crowd } from "../connections.ts";

const cells = { open: 0, givenUp: 1 } as const;
const cellsOfFront = 2;

export class FrontCounts {
  readonly buffer: SharedArrayBuffer;
  readonly #counts: Int32Array;

  constructor(given: { readonly fronts: number } | { readonly buffer: SharedArrayBuffer }) {
    const bytes = Int32Array.BYTES_PER_ELEMENT * cellsOfFront;
    this.buffer = "buffer" in given ? given.buffer : new SharedArrayBuffer(given.fronts * bytes);
    this.#counts = new Int32Array(this.buffer);
  }

  get open(): number {
    return this.#sum(cells.open);
  }

  /** How many were given up since the start. */
  get givenUp(): number {
    return this.#sum(cells.givenUp);
  }

  /** As one of the fronts sees it. */
  crowdOf(front: number): Crowd {
    const counts = this;
    const add = (cell: number, count: number): void =>
      void Atomics.add(this.#counts, front * cellsOfFront + cell, count);
    return {
      get open() {
        return counts.open;
      },
      opened: () => add(cells.open, 1),
      closed: () => add(cells.open, -1),
      gaveUp: () => add(cells.givenUp, 1),
    };
  }

  /** It has ended, and its connections with it. */
  forget(front: number): void {
    Atomics.store(this.#counts, front * cellsOfFront + cells.open, 0);
  }

  #sum(cell: number): number {
    let sum = 0;
    for (let at = cell; at < this.#counts.length; at += cellsOfFront) {
      sum += Atomics.load(this.#counts, at);
    }
    return sum;
  }
}
