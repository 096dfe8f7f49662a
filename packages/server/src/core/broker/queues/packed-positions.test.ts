import assert from "node:assert/strict";
import { test } from "node:test";
import type { TaskId } from "@codeq/queue";
import fc from "fast-check";
import { anyTaskId } from "../../../../test/any-task.ts";
import type { Position } from "../../store/store.ts";
import { PackedPositions } from "./ready-window.ts";

const id = "018bcfe5-6800-7000-8bb7-15228d999bdd" as TaskId;

test("what goes in comes out first in, first out, as it was", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.maxSafeNat(), anyTaskId)), (entries) => {
      const packed = new PackedPositions();
      for (const [number, each] of entries) assert.ok(packed.push(number, each));
      for (const [number, each] of entries) {
        assert.deepEqual(packed.shift(), { number, id: each });
      }
      assert.equal(packed.shift(), undefined);
    }),
  );
});

test("numbers and ids at their limits are kept exactly", () => {
  const packed = new PackedPositions();
  const ids = [
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "80000000-8000-8000-8000-800080008000",
    "01234567-89ab-cdef-0123-456789abcdef",
  ] as TaskId[];
  const numbers = [0, 1, 2 ** 31, 2 ** 32, Number.MAX_SAFE_INTEGER];
  for (const number of numbers) for (const each of ids) packed.push(number, each);
  for (const number of numbers) {
    for (const each of ids) assert.deepEqual(packed.shift(), { number, id: each });
  }
});

test("an id of another form is not taken, and changes nothing", () => {
  const packed = new PackedPositions();
  packed.push(1, id);
  for (const strange of [
    "",
    "task",
    id.slice(1),
    `${id}0`,
    id.toUpperCase(),
    id.replaceAll("-", "0"),
    id.replace("b", "g"),
    id.replace("b", "\u0162"),
    `{${id.slice(1, -1)}}`,
    `0${id.replace("-", "")}`,
    `${id.slice(0, -1)}-`,
    "0".repeat(36),
    "-".repeat(36),
  ]) {
    assert.equal(packed.push(2, strange as TaskId), false, strange);
  }
  assert.equal(packed.size, 1);
  packed.push(3, id);
  assert.deepEqual([packed.shift()?.number, packed.shift()?.number], [1, 3]);
});

test("whatever is added and taken, over many blocks, it is what a plain array has", () => {
  const step = fc.tuple(fc.boolean(), fc.integer({ min: 1, max: 2500 }));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
      const packed = new PackedPositions();
      const plain: Position[] = [];
      let number = 0;
      for (const [isAdded, count] of steps) {
        for (let n = 0; n < count; n += 1) {
          if (isAdded) {
            number += 1;
            const digits = (number * 2_654_435_761).toString(16).padStart(12, "0");
            const each = `018bcfe5-6800-7000-8bb7-${digits.slice(-12)}` as TaskId;
            assert.ok(packed.push(number, each));
            plain.push({ number, id: each });
          } else {
            assert.deepEqual(packed.shift(), plain.shift());
          }
        }
        assert.equal(packed.size, plain.length);
      }
      while (plain.length > 0) assert.deepEqual(packed.shift(), plain.shift());
      assert.deepEqual([packed.shift(), packed.size], [undefined, 0]);
    }),
    { numRuns: 25 },
  );
});
