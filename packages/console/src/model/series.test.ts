import assert from "node:assert/strict";
import test from "node:test";
import { pointsOf } from "./series.ts";

test("minutes in which nothing moved are zeros, and points stand at their time", () => {
  const nowMs = Date.UTC(2026, 4, 14, 14, 30, 20);
  const at = (minute: number): string => new Date(Date.UTC(2026, 4, 14, 14, minute)).toISOString();
  const flows = { enqueued: 120, completed: 60, failed: 6, retried: 54 };
  const points = pointsOf(
    {
      points: [
        { at: at(30), ...flows },
        { at: at(10), ...flows },
      ],
    },
    "1h",
    nowMs,
  );
  assert.equal(points.length, 60);
  assert.deepEqual(points.at(-1), {
    atMs: Date.parse(at(30)),
    enqueued: 2,
    completed: 1,
    failed: 1,
  });
  assert.equal(points.filter(({ enqueued }) => enqueued > 0).length, 2);
  assert.equal(points.at(-21)?.enqueued, 2);
});

test("what lies outside the range is left out", () => {
  const nowMs = Date.UTC(2026, 4, 14, 14, 30, 20);
  const old = { at: "2026-05-14T10:00:00Z", enqueued: 5, completed: 5, failed: 0, retried: 0 };
  assert.ok(pointsOf({ points: [old] }, "1h", nowMs).every(({ enqueued }) => enqueued === 0));
});
