/**
 * Numbers that look random and follow from a seed (sfc32). `fork` gives a part of a simulation its
 * own numbers: what one part draws does not shift what the others get, so a change in one place
 * leaves the rest of a seed's story as it was.
 */
const warmUpDraws = 12;
const unit = 2 ** 32;

export class SimRandom {
  readonly #seed: string;
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: number | string) {
    this.#seed = String(seed);
    this.#a = hash(`${this.#seed}/a`);
    this.#b = hash(`${this.#seed}/b`);
    this.#c = hash(`${this.#seed}/c`);
    for (let draw = 0; draw < warmUpDraws; draw += 1) this.#draw();
  }

  /** From 0 up to but not including 1. */
  next(): number {
    return this.#draw() / unit;
  }

  /** A whole number from 0 up to but not including `n`. */
  int(n: number): number {
    return Math.floor(this.next() * n);
  }

  pick<T>(from: readonly T[]): T {
    if (from.length === 0) throw new Error("there is nothing to pick from");
    return from[this.int(from.length)] as T;
  }

  /** Fills the array. */
  bytes(into: Uint8Array): void {
    for (let at = 0; at < into.length; at += 1) into[at] = this.#draw() >>> 24;
  }

  /** Numbers of their own for a part with this name, however many were drawn here. */
  fork(name: string): SimRandom {
    return new SimRandom(`${this.#seed}/${name}`);
  }

  #draw(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    this.#c |= 0;
    return sum >>> 0;
  }
}

/** FNV-1a over UTF-16 units. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) {
    value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  }
  return value | 0;
}
