import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type HeapItem, IndexedHeap } from "./indexed-heap.ts";

interface Item extends HeapItem {
  readonly name: number;
}

function setup(): { heap: IndexedHeap<Item>; add: (dueMs: number) => Item } {
  const heap = new IndexedHeap<Item>();
  let name = 0;
  const add = (dueMs: number): Item => {
    name += 1;
    const item: Item = { name, dueMs, heapIndex: -1 };
    heap.push(item);
    return item;
  };
  return { heap, add };
}

test("an empty heap has no first item, and removing what is not in it does nothing", () => {
  const { heap, add } = setup();
  assert.equal(heap.peek(), undefined);
  heap.remove({ name: 0, dueMs: 1, heapIndex: -1 });
  const only = add(5);
  heap.remove(only);
  heap.remove(only);
  assert.equal(heap.size, 0);
  assert.equal(only.heapIndex, -1);
});

test("whatever is added, moved and removed, the first item is due first and all know where they are", () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant("add" as const), dueMs: fc.nat(20) }),
    fc.record({ kind: fc.constant("remove" as const), which: fc.nat() }),
    fc.record({ kind: fc.constant("move" as const), which: fc.nat(), dueMs: fc.nat(20) }),
    fc.record({ kind: fc.constant("take" as const) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const { heap, add } = setup();
      const model: Item[] = [];
      for (const step of steps) {
        if (step.kind === "add") model.push(add(step.dueMs));
        else if (model.length > 0) {
          const which =
            step.kind === "take" ? model.indexOf(heap.peek()!) : step.which % model.length;
          const item = model[which]!;
          if (step.kind === "move") {
            item.dueMs = step.dueMs;
            heap.update(item);
          } else {
            heap.remove(item);
            model.splice(which, 1);
            assert.equal(item.heapIndex, -1);
          }
        }
        assert.equal(heap.size, model.length);
        const least = Math.min(...model.map(({ dueMs }) => dueMs));
        assert.equal(heap.peek()?.dueMs ?? Number.POSITIVE_INFINITY, least);
        for (const item of model) assert.equal(heap.values()[item.heapIndex], item);
      }
    }),
  );
});

test("taking everything out gives it in order", () => {
  fc.assert(
    fc.property(fc.array(fc.integer()), (times) => {
      const { heap, add } = setup();
      for (const dueMs of times) add(dueMs);
      const taken: number[] = [];
      for (let item = heap.peek(); item !== undefined; item = heap.peek()) {
        taken.push(item.dueMs);
        heap.remove(item);
      }
      assert.deepEqual(
        taken,
        times.toSorted((a, b) => a - b),
      );
    }),
  );
});
