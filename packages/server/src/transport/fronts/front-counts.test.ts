import assert from "node:assert/strict";
import { test } from "node:test";
import { FrontCounts } from "./front-counts.ts";

test("what several fronts have is added up, also through memory that another one was given", () => {
  const counts = new FrontCounts({ fronts: 3 });
  const [first, last] = [counts.crowdOf(0), new FrontCounts({ buffer: counts.buffer }).crowdOf(2)];
  first.opened();
  first.opened();
  last.opened();
  first.closed();
  last.gaveUp();
  assert.deepEqual([counts.open, first.open, last.open, counts.givenUp], [2, 2, 2, 1]);
});

test("a front that has ended has no connections, and what it gave up is not forgotten", () => {
  const counts = new FrontCounts({ fronts: 2 });
  const [ended, other] = [counts.crowdOf(0), counts.crowdOf(1)];
  ended.opened();
  ended.gaveUp();
  other.opened();
  counts.forget(0);
  assert.deepEqual([counts.open, counts.givenUp], [1, 1]);
});
