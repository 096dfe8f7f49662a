/** A queue in memory. Taking from the front costs the same however long the queue is. */
const compactAt = 1024;

export class Fifo<Value> {
  #values: Value[] = [];
  #head = 0;

  get size(): number {
    return this.#values.length - this.#head;
  }

  push(value: Value): void {
    this.#values.push(value);
  }

  first(): Value | undefined {
    return this.#values[this.#head];
  }

  shift(): Value | undefined {
    if (this.size === 0) return undefined;
    const value = this.#values[this.#head] as Value;
    this.#head += 1;
    if (this.#head === this.#values.length) {
      this.#values.length = 0;
      this.#head = 0;
    } else if (this.#head >= compactAt && this.#head * 2 >= this.#values.length) {
      this.#values = this.#values.slice(this.#head);
      this.#head = 0;
    }
    return value;
  }

  /** Puts these before all others. */
  unshift(values: readonly Value[]): void {
    this.#values = [...values, ...this.values()];
    this.#head = 0;
  }

  values(): Value[] {
    return this.#values.slice(this.#head);
  }
}
