/**
 * Task ids: UUID v7, so that neighbours in time are neighbours on disk. Within one process they grow
 * strictly, also when the clock stands still or steps back: the 12 bits behind the time count up,
 * and run over into the time.
 */
import type { TaskId } from "@codeq/queue";

/** Fills the array with random bytes. */
export type RandomBytes = (into: Uint8Array) => void;

const poolBytes = 8192;
const idBytes = 8;

export class TaskIds {
  readonly #pool = Buffer.alloc(poolBytes);
  readonly #fill: RandomBytes;
  #used = poolBytes;
  #lastMs = 0;
  #counter = 0;

  constructor(fill: RandomBytes) {
    this.#fill = fill;
  }

  next(nowMs: number): TaskId {
    if (nowMs > this.#lastMs) {
      this.#lastMs = nowMs;
      this.#counter = 0;
    } else {
      this.#counter += 1;
      if (this.#counter > 0xfff) {
        this.#lastMs += 1;
        this.#counter = 0;
      }
    }
    if (this.#used + idBytes > poolBytes) {
      this.#fill(this.#pool);
      this.#used = 0;
    }
    const pool = this.#pool;
    const at = this.#used;
    this.#used += idBytes;
    // The two top bits of the second half are the variant of RFC 9562.
    pool[at] = ((pool[at] as number) & 0x3f) | 0x80;
    const time = this.#lastMs.toString(16).padStart(12, "0");
    const counter = this.#counter.toString(16).padStart(3, "0");
    const tail = pool.toString("hex", at, at + idBytes);
    return `${time.slice(0, 8)}-${time.slice(8)}-7${counter}-${tail.slice(0, 4)}-${tail.slice(4)}` as TaskId;
  }
}
