import assert from "node:assert/strict";
import { test } from "node:test";
import { type Rankable, type Ranked, ReadyOrder } from "./ready-order.ts";

class Item implements Rankable<Item> {
  entry: Ranked<Item> | undefined;
  #rank: number | undefined;
  looks = 0;

  constructor(rank: number | undefined) {
    this.#rank = rank;
  }

  get rank(): number | undefined {
    this.looks += 1;
    return this.#rank;
  }

  set rank(rank: number | undefined) {
    this.#rank = rank;
  }
}

test("the item with the smallest rank is first, whatever changes", () => {
  const items = [5, 3, undefined, 8].map((rank) => new Item(rank));
  const order = new ReadyOrder(() => items);
  const change = (at: number, rank: number | undefined): Item | undefined => {
    const item = items[at]!;
    item.rank = rank;
    order.note(item);
    return order.first();
  };
  assert.equal(order.first(), items[1]);
  assert.equal(change(2, 1), items[2]);
  assert.equal(change(2, undefined), items[1]);
  assert.equal(change(1, 9), items[0]);
  assert.equal(change(3, 5), items[0]);
  assert.deepEqual(new Set(order.equals(10)), new Set([items[0], items[3]]));
  assert.equal(order.equals(1).length, 1);
  const late = new Item(0);
  items.push(late);
  order.note(late);
  assert.equal(order.first(), late);
});

test("items that are noted and never claimed from are forgotten", () => {
  const items = [new Item(7)];
  const order = new ReadyOrder(() => items);
  assert.equal(order.first(), items[0]);
  const dropped = Array.from({ length: 5000 }, () => new Item(1));
  for (const item of dropped) order.note(item);
  assert.equal(order.first(), items[0]);
  assert.equal(
    dropped.reduce((sum, { looks }) => sum + looks, 0),
    0,
  );
});
