/**
 * The head of one (queue, priority) in memory; the rest is on disk.
 *
 * Sequence numbers only grow, and every return to ready takes a new one. So the window always
 * continues behind what it has seen and never looks at the start of the index again, where the
 * deleted keys are.
 *
 *   taken | near: ids as they are | far: packed | on disk only, behind `coveredTo`
 */
import type { TaskId } from "@codeq/queue";
import type { Position } from "../../store/store.ts";

/** So many ids of tasks that were taken may stay in memory, in each of many queues. */
const compactAt = 32;
/** The number of tasks at the head that are kept unpacked. */
export const nearMax = 4096;
/** With fewer unpacked tasks than this, more are unpacked. */
const nearMin = 1024;
const bringMax = 1024;
const nothing: readonly TaskId[] = [];
/** Shared by windows that have none of their own. */
const noneGone: Set<number> = new Set();
const noSeqs: number[] = [];
const noIds: TaskId[] = [];

export class ReadyWindow {
  /** Every ready task up to this sequence number that was not taken is in the window. */
  coveredTo = 0;
  /** The highest sequence number that this bucket has seen. */
  #newest = 0;
  #seqs = noSeqs;
  #ids = noIds;
  #head = 0;
  #far: PackedPositions | undefined;
  /** Sequence numbers of tasks that left without being taken; never that of the head. */
  #gone = noneGone;
  /** How many tasks left that were on disk only; a refill under way may still find them. */
  departures = 0;

  get size(): number {
    return this.#ids.length - this.#head + this.#farSize - this.#gone.size;
  }

  get #farSize(): number {
    return this.#far === undefined ? 0 : this.#far.size;
  }

  /** The oldest task in the window; undefined when the window is empty. */
  get headSeq(): number | undefined {
    return this.#seqs[this.#head];
  }

  get headId(): TaskId | undefined {
    return this.#ids[this.#head];
  }

  /**
   * A task became ready. It enters the window when there is room and nothing older is left on disk;
   * otherwise a later refill finds it.
   */
  arrive(seq: number, id: TaskId, hasRoom: boolean): boolean {
    const isComplete = this.coveredTo === this.#newest;
    this.#newest = seq;
    if (!isComplete || !hasRoom || !this.#push(seq, id)) return false;
    this.coveredTo = seq;
    return true;
  }

  /** How many near tasks come before a sequence number, and up to which number that is exact. */
  aheadOf(seq: number): { readonly count: number; readonly knownTo: number } {
    const seqs = this.#seqs.slice(this.#head);
    const near = seqs.filter((each) => each < seq && !this.#gone.has(each));
    return { count: near.length, knownTo: seqs.at(-1) ?? 0 };
  }

  /** Takes the oldest task. */
  take(): Position | undefined {
    const number = this.#seqs[this.#head];
    const id = this.#ids[this.#head];
    if (number === undefined || id === undefined) return undefined;
    this.#head += 1;
    if (this.#gone.size > 0) this.#passOver();
    this.#compact();
    return { number, id };
  }

  /** Removes a task that is not ready any more without having been taken; whether it was in the window. */
  leave(seq: number): boolean {
    if (seq > this.coveredTo) {
      this.departures += 1;
      return false;
    }
    if (this.#gone === noneGone) this.#gone = new Set();
    this.#gone.add(seq);
    this.#passOver();
    this.#compact();
    return true;
  }

  #compact(): void {
    if (this.#head === this.#ids.length) {
      this.#seqs = noSeqs;
      this.#ids = noIds;
      this.#head = 0;
    } else if (this.#head >= compactAt && this.#head * 2 > this.#ids.length) {
      this.#seqs = this.#seqs.slice(this.#head);
      this.#ids = this.#ids.slice(this.#head);
      this.#head = 0;
    }
  }

  /** Drops tasks that have left from the head, so that the head is a ready task. */
  #passOver(): void {
    for (;;) {
      if (this.#head === this.#ids.length) this.bringNear();
      const seq = this.#seqs[this.#head];
      if (seq === undefined || !this.#gone.delete(seq)) return;
      this.#head += 1;
    }
  }

  /** Unpacks far tasks when few near tasks are left; returns them, so that they can be read ahead. */
  bringNear(): readonly TaskId[] {
    if (this.#far === undefined || this.#far.size === 0 || this.#ids.length - this.#head >= nearMin)
      return nothing;
    const brought: TaskId[] = [];
    while (brought.length < bringMax) {
      const next = this.#far.shift();
      if (next === undefined) break;
      this.#pushNear(next.number, next.id);
      brought.push(next.id);
    }
    return brought;
  }

  /** Starts with nothing in memory and everything up to `newest` on disk. */
  recover(newest: number): void {
    this.#newest = newest;
  }

  /** Marks the point that a refill which starts now will have read up to when it reaches the end. */
  beginRefill(): number {
    return this.#newest;
  }

  /** Adds what a scan behind `coveredTo` found; the scan is complete up to `reached`. */
  endRefill(found: readonly Position[], reached: number): void {
    for (const { number, id } of found) this.#pushNear(number, id);
    this.coveredTo = reached;
  }

  /** Adds a task at the end; false when the window cannot hold it. */
  #push(seq: number, id: TaskId): boolean {
    if (this.#farSize > 0 || this.#ids.length - this.#head >= nearMax) {
      this.#far ??= new PackedPositions();
      return this.#far.push(seq, id);
    }
    this.#pushNear(seq, id);
    return true;
  }

  #pushNear(seq: number, id: TaskId): void {
    if (this.#ids === noIds) {
      // Arrays of one entry, because most windows of many queues never have a second one.
      this.#seqs = [seq];
      this.#ids = [id];
    } else {
      this.#seqs.push(seq);
      this.#ids.push(id);
    }
  }
}

const blockEntries = 1024;
/** An id takes so many numbers of 32 bits. */
export const idWords = 4;

interface Block {
  readonly numbers: Float64Array;
  readonly ids: Uint32Array;
}

/**
 * Sequence numbers and ids of tasks in 24 bytes each, first in, first out: the memory cost of a long queue.
 * Ids must be UUIDs in canonical form.
 */
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
    const packed = packId(id);
    if (packed === undefined) return false;
    let block = this.#blocks.at(-1);
    if (block === undefined || this.#end === blockEntries) {
      block = this.#spare ?? newBlock();
      this.#spare = undefined;
      this.#blocks.push(block);
      this.#end = 0;
    }
    block.numbers[this.#end] = number;
    block.ids.set(packed, this.#end * idWords);
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

/** The id in numbers, until the next call; undefined when the id is not a UUID in canonical form. */
export function packId(id: string): Uint32Array | undefined {
  if (id.length !== idChars) return undefined;
  let word = 0;
  let digits = 0;
  for (let at = 0; at < idChars; at++) {
    const code = id.charCodeAt(at);
    if (at === 8 || at === 13 || at === 18 || at === 23) {
      if (code !== dash) return undefined;
      continue;
    }
    const digit = code < 256 ? (digitOf[code] as number) : noDigit;
    if (digit === noDigit) return undefined;
    word = (word << 4) | digit;
    digits += 1;
    if (digits % 8 === 0) words[digits / 8 - 1] = word;
  }
  return words;
}

export function idAt(ids: Uint32Array, at: number): TaskId {
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
