/**
 * What happened in a run, line by line. The hash of all lines tells whether two runs were the same;
 * the lines themselves are only kept when somebody wants to read them.
 */
import { createHash } from "node:crypto";

export class Trace {
  readonly #hash = createHash("sha256");
  readonly #write: ((line: string) => void) | undefined;
  readonly #timeMs: () => number;
  lines = 0;
  #isOver = false;

  constructor(timeMs: () => number, write: ((line: string) => void) | undefined) {
    this.#timeMs = timeMs;
    this.#write = write;
  }

  add(line: string): void {
    // Somebody may still wait for an answer when a run has ended.
    if (this.#isOver) return;
    const whole = `${this.#timeMs().toFixed(3)} ${line}`;
    this.lines += 1;
    this.#hash.update(whole);
    this.#hash.update("\n");
    this.#write?.(whole);
  }

  /** To be called once, at the end. */
  digest(): string {
    this.#isOver = true;
    return this.#hash.digest("hex");
  }
}
