import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Fifo } from "./fifo.ts";

test("it gives what it was given, in order, however much that is", () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant("push" as const), count: fc.nat({ max: 2000 }) }),
    fc.record({ do: fc.constant("shift" as const), count: fc.nat({ max: 2000 }) }),
    fc.record({ do: fc.constant("unshift" as const), count: fc.nat({ max: 5 }) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
      const fifo = new Fifo<number>();
      let model: number[] = [];
      let last = 0;
      const fresh = (count: number): number[] => Array.from({ length: count }, () => ++last);
      for (const { do: what, count } of steps) {
        if (what === "push") {
          for (const n of fresh(count)) {
            fifo.push(n);
            model.push(n);
          }
        } else if (what === "unshift") {
          const first = fresh(count);
          fifo.unshift(first);
          model = [...first, ...model];
        } else {
          for (let n = 0; n < count; n += 1) {
            assert.equal(fifo.first(), model[0]);
            assert.equal(fifo.shift(), model.shift());
          }
        }
        assert.equal(fifo.size, model.length);
      }
      assert.deepEqual(fifo.values(), model);
    }),
    { numRuns: 30 },
  );
});
