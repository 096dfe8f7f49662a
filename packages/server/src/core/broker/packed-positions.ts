/**
 * Sequence numbers and ids of tasks in 24 bytes each, first in, first out: the memory cost of a long queue.
 * Ids must be UUIDs in canonical form.
 */
import type { TaskId } from "@codeq/queue";
import type { Position } from "../store/store.ts";

const blockEntries = 1024;
const idWords = 4;

interface Block {
  readonly numbers: Float64Array;
  readonly ids: Uint32Array;
}

export class PackedPositions {
  #blocks: Block[] = [];
  /** The first entry in the first block, and the end in the last block. */
  #first = 0;
  #end = 0;
  #spare: Block | undefined;

  get size(): number {
    if (this.#blocks.length === 0) return 0;
    return (this.#blocks.length - 1) * blockEntries + this.#end - this.#first;
  }

  /** False when the id is not a UUID in canonical form. */
  push(number: number, id: TaskId): boolean {
    if (!parseId(id)) return false;
    let block = this.#blocks.at(-1);
    if (block === undefined || this.#end === blockEntries) {
      block = this.#spare ?? newBlock();
      this.#spare = undefined;
      this.#blocks.push(block);
      this.#end = 0;
    }
    block.numbers[this.#end] = number;
    block.ids.set(words, this.#end * idWords);
    this.#end += 1;
    return true;
  }

  shift(): Position | undefined {
    const block = this.#blocks[0];
    if (block === undefined) return undefined;
    const at = this.#first;
    const position = { number: block.numbers[at] as number, id: idAt(block.ids, at * idWords) };
    this.#first += 1;
    const end = this.#blocks.length === 1 ? this.#end : blockEntries;
    if (this.#first === end) {
      this.#spare = this.#blocks.shift();
      this.#first = 0;
    }
    return position;
  }
}

function newBlock(): Block {
  return {
    numbers: new Float64Array(blockEntries),
    ids: new Uint32Array(blockEntries * idWords),
  };
}

/** The id that was parsed last. */
const words = new Uint32Array(idWords);
const idChars = 36;
const dash = 0x2d;
const noDigit = 0xff;

/** The value of each hexadecimal digit in lower case. */
const digitOf = new Uint8Array(256).fill(noDigit);
for (let digit = 0; digit < 16; digit++) digitOf[digit.toString(16).charCodeAt(0)] = digit;

/** Every byte as two hexadecimal digits. */
const pairs: readonly string[] = Array.from({ length: 256 }, (_, byte) =>
  byte.toString(16).padStart(2, "0"),
);

function parseId(id: string): boolean {
  if (id.length !== idChars) return false;
  let word = 0;
  let digits = 0;
  for (let at = 0; at < idChars; at++) {
    const code = id.charCodeAt(at);
    if (at === 8 || at === 13 || at === 18 || at === 23) {
      if (code !== dash) return false;
      continue;
    }
    const digit = code < 256 ? (digitOf[code] as number) : noDigit;
    if (digit === noDigit) return false;
    word = (word << 4) | digit;
    digits += 1;
    if (digits % 8 === 0) words[digits / 8 - 1] = word;
  }
  return true;
}

function idAt(ids: Uint32Array, at: number): TaskId {
  const [a, b, c, d] = [ids[at], ids[at + 1], ids[at + 2], ids[at + 3]] as [
    number,
    number,
    number,
    number,
  ];
  return `${half(a >>> 16)}${half(a)}-${half(b >>> 16)}-${half(b)}-${half(c >>> 16)}-${half(c)}${half(d >>> 16)}${half(d)}` as TaskId;
}

function half(word: number): string {
  return (pairs[(word >>> 8) & 0xff] as string) + pairs[word & 0xff];
}
