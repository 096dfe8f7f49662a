import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { IdTable } from "./id-table.ts";

interface Item {
  readonly id: string;
  readonly n: number;
}

test("it holds what a list holds, with several under one id", () => {
  const id = fc.oneof(fc.constantFrom("", "a", "b", "aaaaa", "baaaa"), fc.string());
  const step = fc.record({ id, isRemoval: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const table = new IdTable<Item>();
      const model: Item[] = [];
      for (const [n, { id, isRemoval }] of steps.entries()) {
        const known = model.find((item) => item.id === id);
        assert.equal(table.get(id), known);
        if (isRemoval && known !== undefined) {
          assert.ok(table.remove(known));
          assert.ok(!table.remove(known));
          model.splice(model.indexOf(known), 1);
        } else {
          const item = { id, n };
          table.add(item);
          model.push(item);
        }
        const even = ({ n: each }: Item): boolean => each % 2 === 0;
        assert.equal(
          table.find(id, even),
          model.find((item) => item.id === id && even(item)),
        );
        assert.equal(table.size, model.length);
        assert.deepEqual(new Set(table.values()), new Set(model));
      }
      table.clear();
      assert.deepEqual([table.size, table.values()], [0, []]);
    }),
  );
});
