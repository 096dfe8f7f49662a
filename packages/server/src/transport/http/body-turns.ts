/**
 * Large bodies are parsed one in each turn of the event loop, in order of arrival. Otherwise several large
 * bodies would be parsed in a row, and small requests would wait for all of them.
 */
export class BodyTurns {
  readonly #waiting: (() => void)[] = [];

  /** Runs at once when the body is small. */
  take(bodyChars: number, run: () => void): void {
    if (bodyChars <= smallCharsMax) {
      run();
      return;
    }
    this.#waiting.push(run);
    if (this.#waiting.length === 1) setImmediate(this.#next);
  }

  readonly #next = (): void => {
    // The next turn is asked for first: what is run may throw.
    if (this.#waiting.length > 1) setImmediate(this.#next);
    this.#waiting.shift()?.();
  };
}

const smallCharsMax = 64 * 1024;
