/**
 * Looks at the memory of a server several times near the beginning and near the end of a load, and
 * takes the median of each: what waits for its flush comes and goes.
 */
import { type Memory, memoryOf } from "../e2e/server-memory.ts";
import type { ServerProcess } from "../e2e/server-process.ts";

/** When the windows begin and how long they are, as shares of the time. */
const starts = [0.2, 0.9] as const;
const length = 0.1;
const looks = 5;

export class MemoryWindows {
  readonly #server: ServerProcess;
  readonly #seen: Memory[] = [];
  #looking: Promise<void> | undefined;

  constructor(server: ServerProcess) {
    this.#server = server;
  }

  /** Called often; looks when it is time to. */
  at(share: number): void {
    const window = Math.floor(this.#seen.length / looks);
    const start = starts[window];
    if (start === undefined || this.#looking !== undefined) return;
    const nth = this.#seen.length % looks;
    if (share < start + (length * nth) / looks) return;
    this.#looking = memoryOf(this.#server).then((memory) => {
      this.#seen.push(memory);
      this.#looking = undefined;
    });
  }

  async conclude(): Promise<{ early: Memory; late: Memory }> {
    await this.#looking;
    // The time may be over before the last look.
    while (this.#seen.length < looks * starts.length) {
      this.#seen.push(await memoryOf(this.#server));
    }
    return {
      early: medianOf(this.#seen.slice(0, looks)),
      late: medianOf(this.#seen.slice(looks)),
    };
  }
}

function medianOf(seen: readonly Memory[]): Memory {
  const heap = median(seen.map((each) => each.heap));
  const resident = median(seen.map((each) => each.resident));
  return { heap, resident };
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;
}
