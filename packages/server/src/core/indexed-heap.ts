/** A binary heap whose items know their position, so that one can be moved or removed cheaply. */
export interface HeapItem {
  /** When the item is due, or its rank: items with smaller numbers come first. */
  dueMs: number;
  /** Where the item is; -1 when it is in no heap. Written by the heap only. */
  heapIndex: number;
}

export class IndexedHeap<Item extends HeapItem> {
  readonly #items: Item[] = [];

  get size(): number {
    return this.#items.length;
  }

  /** The item that is due first. */
  peek(): Item | undefined {
    return this.#items[0];
  }

  values(): readonly Item[] {
    return this.#items;
  }

  push(item: Item): void {
    item.heapIndex = this.#items.length;
    this.#items.push(item);
    this.#up(item);
  }

  remove(item: Item): void {
    const index = item.heapIndex;
    if (index < 0) return;
    item.heapIndex = -1;
    const last = this.#items.pop();
    if (last === undefined || last === item) return;
    this.#place(last, index);
    this.update(last);
  }

  /** To be called after an item's `dueMs` has changed. */
  update(item: Item): void {
    this.#up(item);
    this.#down(item);
  }

  #up(item: Item): void {
    let index = item.heapIndex;
    while (index > 0) {
      const parentIndex = (index - 1) >>> 1;
      const parent = this.#items[parentIndex] as Item;
      if (parent.dueMs <= item.dueMs) break;
      this.#place(parent, index);
      index = parentIndex;
    }
    this.#place(item, index);
  }

  #down(item: Item): void {
    let index = item.heapIndex;
    for (;;) {
      let childIndex = index * 2 + 1;
      if (childIndex >= this.#items.length) break;
      const right = this.#items[childIndex + 1];
      if (right !== undefined && right.dueMs < (this.#items[childIndex] as Item).dueMs) {
        childIndex += 1;
      }
      const child = this.#items[childIndex] as Item;
      if (child.dueMs >= item.dueMs) break;
      this.#place(child, index);
      index = childIndex;
    }
    this.#place(item, index);
  }

  #place(item: Item, index: number): void {
    this.#items[index] = item;
    item.heapIndex = index;
  }
}
