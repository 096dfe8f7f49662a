/**
 * Parts that are opened one after the other. Unless all of them are kept, leaving the scope closes those
 * that were opened so far, the last one first. Node 22 has no AsyncDisposableStack, which does the same.
 */
export class OpenedParts implements AsyncDisposable {
  #closings: (() => PromiseLike<void>)[] = [];

  use<T extends AsyncDisposable>(part: T): T {
    this.defer(() => part[Symbol.asyncDispose]());
    return part;
  }

  defer(close: () => PromiseLike<void>): void {
    this.#closings.push(close);
  }

  /** Hands all parts over: from now on the returned object closes them. */
  keep(): OpenedParts {
    const kept = new OpenedParts();
    kept.#closings = this.#closings.splice(0);
    return kept;
  }

  /** Closes every part, also after one that fails; the first failure is thrown at the end. */
  async [Symbol.asyncDispose](): Promise<void> {
    const failures: unknown[] = [];
    for (const close of this.#closings.splice(0).reverse()) {
      try {
        await close();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
