import assert from "node:assert/strict";
import { test } from "node:test";
import type { Task } from "@codeq/queue";
import fc from "fast-check";
import type { Times } from "../records/series-record.ts";
import { addTimes, bucketsOf, countTimes, noTimes, quantileSeconds } from "./times.ts";

/** Times of tasks that waited so long. */
function timesOf(waits: readonly number[]): Times {
  const times = noTimes();
  for (const ms of waits) {
    const before = { place: { in: "ready", seq: 1 }, updatedMs: 1000 } as Task;
    const after = { place: { in: "leased", sinceMs: 1000 + ms } } as Task;
    countTimes(times, before, after);
  }
  return bucketsOf(times);
}

const someMs = fc.array(fc.integer({ min: 0, max: 3_000_000 }), { minLength: 1 });

test("a percentile is within a fifth of the exact one", () => {
  fc.assert(
    fc.property(someMs, fc.constantFrom(0.5, 0.99), (all, share) => {
      const sorted = all.toSorted((one, other) => one - other);
      const exact = (sorted[Math.ceil(share * sorted.length) - 1] ?? 0) / 1000;
      const found = quantileSeconds(timesOf(all).waits, share) ?? Number.NaN;
      assert.ok(Math.abs(found - exact) <= exact * 0.25 + 0.0005, `${found} for ${exact}`);
    }),
  );
});

test("times add up as if they were counted together", () => {
  fc.assert(
    fc.property(someMs, someMs, (one, other) => {
      assert.deepEqual(addTimes(timesOf(one), timesOf(other)), timesOf([...one, ...other]));
    }),
  );
});

test("an attempt counts however it ends, and a change that is none does not", () => {
  const leased = { place: { in: "leased", sinceMs: 1000 }, updatedMs: 5000 } as Task;
  const ready = { place: { in: "ready", seq: 2 }, updatedMs: 5000 } as Task;
  const times = noTimes();
  countTimes(times, leased, ready);
  assert.equal(quantileSeconds(bucketsOf(times).runs, 0.5), 3.4);
  countTimes(times, leased, leased);
  countTimes(times, ready, ready);
  countTimes(times, undefined, ready);
  assert.equal(quantileSeconds(bucketsOf(times).waits, 0.5), undefined);
  assert.deepEqual(
    bucketsOf(times).runs.filter((count) => count > 0),
    [1],
  );
});
