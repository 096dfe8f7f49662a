/**
 * Task ids: UUID v7, so that tasks created together are neighbours on disk. Within one process, ids grow
 * strictly, also when the clock stands still or steps back: the 12 bits behind the time count up, and
 * overflow into the time.
 */
import type { TaskId } from "@codeq/queue";

/** Fills the array with random bytes. */
export type RandomBytes = (into: Uint8Array) => void;

/** Draws ids that were not drawn before. */
export interface DrawId {
  next(nowMs: number): TaskId;
}

const poolBytes = 8192;
const idBytes = 8;
const idDigits = idBytes * 2;
const countersMax = 0x1000;

/** Every counter with its version in front and the dash behind it. */
const counters: readonly string[] = Array.from(
  { length: countersMax },
  (_, counter) => `-7${counter.toString(16).padStart(3, "0")}-`,
);

/** When an id was drawn. */
export function timeOfId(id: TaskId): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

/** In front of every id that is drawn at this time or later. */
export function idAtMs(ms: number): string {
  const time = Math.min(Math.max(0, Math.floor(ms)), 2 ** 48 - 1)
    .toString(16)
    .padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}`;
}

export class TaskIds implements DrawId {
  readonly #pool = Buffer.alloc(poolBytes);
  readonly #fill: RandomBytes;
  /** The pool as hexadecimal digits, and how many of them are used. */
  #digits = "";
  #used = 0;
  #lastMs = 0;
  #timeText = "";
  #counter = 0;

  constructor(fill: RandomBytes) {
    this.#fill = fill;
  }

  next(nowMs: number): TaskId {
    if (nowMs > this.#lastMs) this.#tick(nowMs);
    else if (this.#counter + 1 < countersMax) this.#counter += 1;
    else this.#tick(this.#lastMs + 1);
    if (this.#used === this.#digits.length) this.#refill();
    const at = this.#used;
    this.#used += idDigits;
    const digits = this.#digits;
    const tail = `${digits.slice(at, at + 4)}-${digits.slice(at + 4, at + idDigits)}`;
    return (this.#timeText + counters[this.#counter] + tail) as TaskId;
  }

  #tick(ms: number): void {
    this.#lastMs = ms;
    this.#counter = 0;
    const time = ms.toString(16).padStart(12, "0");
    this.#timeText = `${time.slice(0, 8)}-${time.slice(8)}`;
  }

  #refill(): void {
    const pool = this.#pool;
    this.#fill(pool);
    // The two top bits of the second half are the variant of RFC 9562.
    for (let at = 0; at < poolBytes; at += idBytes) {
      pool[at] = ((pool[at] as number) & 0x3f) | 0x80;
    }
    this.#digits = pool.toString("hex");
    this.#used = 0;
  }
}
