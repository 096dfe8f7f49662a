/** Ids for requests that came without one: 32 random hexadecimal digits, drawn many at a time. */
import { randomFillSync } from "node:crypto";

const idBytes = 16;
const poolBytes = 512 * idBytes;

export class RequestIds {
  readonly #pool = Buffer.alloc(poolBytes);
  #used = poolBytes;

  next(): string {
    if (this.#used === poolBytes) {
      randomFillSync(this.#pool);
      this.#used = 0;
    }
    this.#used += idBytes;
    return this.#pool.toString("hex", this.#used - idBytes, this.#used);
  }
}
