/**
 * Values by their id, for tables that are filled and emptied all the time. A `Map` would do but for
 * the garbage collector: each time it grows or shrinks, its old inner table points to the new one, and
 * once one of them has grown old all that follow are kept until the next full collection, with
 * everything that was ever in them. Measured, that took a third of the time of a busy client.
 */
interface Identified {
  readonly id: string;
}

const bucketsCount = 512;

export class IdTable<Value extends Identified> {
  readonly #buckets: Value[][] = Array.from({ length: bucketsCount }, () => []);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** There may be several with the same id. */
  add(value: Value): void {
    this.#bucket(value.id).push(value);
    this.#size += 1;
  }

  /** The first with this id, in the order in which they were added. */
  get(id: string): Value | undefined {
    for (const value of this.#bucket(id)) if (value.id === id) return value;
    return undefined;
  }

  /** The first with this id for which the condition holds. */
  find(id: string, holds: (value: Value) => boolean): Value | undefined {
    for (const value of this.#bucket(id)) if (value.id === id && holds(value)) return value;
    return undefined;
  }

  /** False when it is not there. */
  remove(value: Value): boolean {
    const bucket = this.#bucket(value.id);
    const at = bucket.indexOf(value);
    if (at < 0) return false;
    bucket.splice(at, 1);
    this.#size -= 1;
    return true;
  }

  /** All of them, as they are now, in no order. */
  values(): Value[] {
    return this.#size === 0 ? [] : this.#buckets.flat();
  }

  clear(): void {
    for (const bucket of this.#buckets) bucket.length = 0;
    this.#size = 0;
  }

  /** Ids differ most at their end. */
  #bucket(id: string): Value[] {
    const { length } = id;
    let hash = length;
    for (let at = Math.max(0, length - 4); at < length; at += 1) {
      hash = (hash * 31 + id.charCodeAt(at)) | 0;
    }
    return this.#buckets[hash & (bucketsCount - 1)] as Value[];
  }
}
