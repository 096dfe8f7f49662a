/**
 * What claims for any queue of a tenant take from, in their order: items with smaller ranks come first. An item that
 * changes is only noted; the next claim for any queue sorts it in. So claims that name their queues pay next to nothing,
 * and a claim for any queue costs O(log n) for each item that changed.
 *
 *   given up   nothing is noted; the next claim for any queue makes the order from all items
 *   made       ends when more items are noted than a new order would cost, which also bounds its memory
 */
import { type HeapItem, IndexedHeap } from "./indexed-heap.ts";

export interface Rankable<Self> {
  /** Smaller ranks come first; undefined with nothing to claim. */
  readonly rank: number | undefined;
  /** The item in its order; written by the order only. */
  entry: Ranked<Self> | undefined;
}

/** An item in the order; `dueMs` is its rank. */
export interface Ranked<Item> extends HeapItem {
  readonly item: Item;
  isNoted: boolean;
}

/** The order is given up when so many more items are noted than are in it. */
const notedSpare = 1024;

export class ReadyOrder<Item extends Rankable<Item>> {
  readonly #all: () => Iterable<Item>;
  #heap: IndexedHeap<Ranked<Item>> = new IndexedHeap();
  #noted: Ranked<Item>[] = [];
  #isMade = false;

  constructor(all: () => Iterable<Item>) {
    this.#all = all;
  }

  /** The item may have got another rank. */
  note(item: Item): void {
    if (!this.#isMade) return;
    item.entry ??= entryOf(item);
    const { entry } = item;
    if (entry.isNoted) return;
    entry.isNoted = true;
    this.#noted.push(entry);
    if (this.#noted.length > this.#heap.size + notedSpare) this.#giveUp();
  }

  first(): Item | undefined {
    if (!this.#isMade) this.#make();
    if (this.#noted.length > 0) this.#sortIn();
    return this.#heap.peek()?.item;
  }

  /** Up to so many of the items that share the smallest rank; call `first` before. */
  equals(max: number): readonly Item[] {
    const ranked = this.#heap.values();
    const rank = ranked[0]?.dueMs;
    const found: Item[] = [];
    const open = [0];
    for (let at = open.pop(); at !== undefined && found.length < max; at = open.pop()) {
      const entry = ranked[at];
      if (entry === undefined || entry.dueMs !== rank) continue;
      found.push(entry.item);
      open.push(at * 2 + 1, at * 2 + 2);
    }
    return found;
  }

  #make(): void {
    this.#isMade = true;
    for (const item of this.#all()) {
      item.entry = entryOf(item);
      item.entry.isNoted = true;
      this.#noted.push(item.entry);
    }
  }

  #giveUp(): void {
    this.#isMade = false;
    this.#heap = new IndexedHeap();
    this.#noted = [];
  }

  #sortIn(): void {
    const noted = this.#noted;
    this.#noted = [];
    for (const entry of noted) {
      entry.isNoted = false;
      const { rank } = entry.item;
      if (rank === undefined) this.#heap.remove(entry);
      else if (entry.heapIndex < 0) {
        entry.dueMs = rank;
        this.#heap.push(entry);
      } else if (entry.dueMs !== rank) {
        entry.dueMs = rank;
        this.#heap.update(entry);
      }
    }
  }
}

function entryOf<Item>(item: Item): Ranked<Item> {
  return { item, dueMs: 0, heapIndex: -1, isNoted: false };
}
