import assert from "node:assert/strict";
import { test } from "node:test";
import { heapUse, watchHeap } from "./heap-use.ts";

test("what grows between collections was allocated, what a young one leaves was copied", () => {
  const used = heapUse(
    { young: 10, old: 100 },
    [
      // 90 young and 5 old are new; 20 stay young, 30 move.
      { isYoung: true, before: { young: 100, old: 105 }, after: { young: 20, old: 135 } },
      // 60 are new; nothing is known of what a full collection moves.
      { isYoung: false, before: { young: 80, old: 135 }, after: { young: 0, old: 50 } },
    ],
    // 7 young are new; the old one was swept meanwhile.
    { young: 7, old: 40 },
  );
  assert.deepEqual(used, { allocatedBytes: 95 + 60 + 7, copiedBytes: 50, promotedBytes: 30 });
});

test("without a collection what was allocated is what the heap has grown by", () => {
  const used = heapUse({ young: 10, old: 5 }, [], { young: 25, old: 5 });
  assert.deepEqual(used, { allocatedBytes: 15, copiedBytes: 0, promotedBytes: 0 });
});

test("a program that allocates is seen to allocate about as much", () => {
  const arrays = 20_000;
  const end = watchHeap();
  let kept: number[] = [];
  for (let i = 0; i < arrays; i += 1) kept = Array.from({ length: 100 }, () => i);
  const { allocatedBytes, copiedBytes, promotedBytes } = end();
  assert.equal(kept.length, 100);
  // An element takes 4 or 8 bytes, and growing may copy an array a few times.
  const leastBytes = arrays * 100 * 4;
  assert.ok(allocatedBytes > leastBytes && allocatedBytes < leastBytes * 10, `${allocatedBytes}`);
  assert.ok(promotedBytes <= copiedBytes && copiedBytes < allocatedBytes);
});
