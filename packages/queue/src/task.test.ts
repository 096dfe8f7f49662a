import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { placeNames, taskIn, worker } from "../test/build-task.ts";
import { clampPriority, queueOf, statusOf } from "./task.ts";

test("the status follows from the place", () => {
  assert.deepEqual(
    placeNames.map((where) => statusOf(taskIn(where).place)),
    ["PENDING", "PENDING", "PENDING", "IN_PROGRESS", "FAILED", "COMPLETED"],
  );
  const failed = {
    in: "done",
    how: "failed",
    workerId: worker,
    startedMs: 0,
    atMs: 1,
    expiresMs: 2,
  } as const;
  assert.equal(statusOf(failed), "FAILED");
});

test("commands that differ only by case share a queue", () => {
  assert.equal(queueOf("Render.PDF"), "render.pdf");
  assert.equal(queueOf("render.pdf"), "render.pdf");
  assert.notEqual(queueOf("render.pdf"), queueOf("render-pdf"));
});

test("a priority in range stays as it is", () => {
  for (const priority of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) {
    assert.equal(clampPriority(priority), priority);
  }
});

test("a priority out of range becomes the nearest end", () => {
  for (const low of [-1, -9, -1e9, -Infinity]) assert.equal(clampPriority(low), 0);
  for (const high of [10, 99, 1e9, Infinity]) assert.equal(clampPriority(high), 9);
});

test("any number at all becomes a whole priority, and the order of two is kept", () => {
  fc.assert(
    fc.property(fc.double(), fc.double(), (left, right) => {
      const clamped = clampPriority(left);
      assert.ok(Number.isInteger(clamped) && clamped >= 0 && clamped <= 9);
      assert.ok(!Object.is(clamped, -0));
      if (left <= right) assert.ok(clamped <= clampPriority(right));
    }),
  );
  assert.equal(clampPriority(Number.NaN), 0);
  assert.equal(clampPriority(4.9), 4);
});
