import assert from "node:assert/strict";
import test from "node:test";
import { pointsOf } from "./series.ts";

const none = {
  ...{ enqueued: 0, completed: 0, failed: 0, retried: 0 },
  ...{ ready: 0, delayed: 0, inProgress: 0, dlq: 0 },
};
const noTimes = {
  ...{ waitP50Ms: undefined, waitP99Ms: undefined },
  ...{ runP50Ms: undefined, runP99Ms: undefined },
};

test("minutes in which nothing moved are zeros, and points stand at their time", () => {
  const nowMs = Date.UTC(2026, 4, 14, 14, 30, 20);
  const at = (minute: number): string => new Date(Date.UTC(2026, 4, 14, 14, minute)).toISOString();
  const flows = { ...none, enqueued: 120, completed: 60, failed: 6, retried: 54 };
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
    ...noTimes,
  });
  assert.equal(points.filter(({ enqueued }) => enqueued > 0).length, 2);
  assert.equal(points.at(-21)?.enqueued, 2);
});

test("what lies outside the range is left out", () => {
  const nowMs = Date.UTC(2026, 4, 14, 14, 30, 20);
  const old = { ...none, at: "2026-05-14T10:00:00Z", enqueued: 5, completed: 5 };
  assert.ok(pointsOf({ points: [old] }, "1h", nowMs).every(({ enqueued }) => enqueued === 0));
});

test("a step of several minutes has the times of its slowest minute", () => {
  const nowMs = Date.UTC(2026, 4, 14, 14, 30, 20);
  const point = (minute: number, waitP99Seconds: number | undefined) => ({
    ...none,
    at: new Date(Date.UTC(2026, 4, 14, 14, minute)).toISOString(),
    waitP99Seconds,
  });
  const points = pointsOf(
    { points: [point(30, 0.2), point(31, 4), point(32, undefined)] },
    "6h",
    nowMs,
  );
  assert.equal(points.at(-1)?.waitP99Ms, 4000);
  assert.equal(points.at(-1)?.runP50Ms, undefined);
});
