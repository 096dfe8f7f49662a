/** Counts durations in steps of 10 us, so that millions of them take no memory and no sorting. */
const stepsPerMs = 100;
/** Longer ones are counted as this. */
const msMax = 2000;

export class Histogram {
  readonly #counts = new Uint32Array(msMax * stepsPerMs);
  #total = 0;

  add(ms: number): void {
    const step = Math.min(Math.max(0, ms * stepsPerMs), this.#counts.length - 1) | 0;
    this.#counts[step] = (this.#counts[step] ?? 0) + 1;
    this.#total += 1;
  }

  /** In milliseconds; undefined when nothing was counted. */
  quantile(share: number): number | undefined {
    let left = Math.ceil(this.#total * share);
    for (let step = 0; step < this.#counts.length; step += 1) {
      left -= this.#counts[step] ?? 0;
      if (left <= 0 && this.#total > 0) return (step + 0.5) / stepsPerMs;
    }
    return undefined;
  }

  clear(): void {
    this.#counts.fill(0);
    this.#total = 0;
  }
}
