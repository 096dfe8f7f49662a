import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Rate, settle, spend, spendableMs } from "./gcra.ts";

const perMinute: Rate = { units: 60, perMs: 60_000, burst: 10 };

test("a whole burst is spent at once, and each further unit after its time", () => {
  let wholeMs = 0;
  for (let unit = 0; unit < 10; unit++) {
    assert.ok(spendableMs(wholeMs, perMinute, 1) <= 5000);
    wholeMs = spend(wholeMs, perMinute, { cost: 1, nowMs: 5000 });
  }
  assert.equal(spendableMs(wholeMs, perMinute, 1), 6000);
  assert.equal(spendableMs(wholeMs, perMinute, 4), 9000);
});

test("a cost above the burst waits for the whole burst, and the lane for its whole cost", () => {
  assert.equal(spendableMs(8000, perMinute, 30), 8000);
  const wholeMs = spend(8000, perMinute, { cost: 30, nowMs: 8000 });
  assert.equal(wholeMs, 38_000);
  assert.equal(spendableMs(wholeMs, perMinute, 1), 29_000);
});

test("a settled task gives unused units back, and owes those above its cost", () => {
  const wholeMs = spend(0, perMinute, { cost: 10, nowMs: 0 });
  assert.equal(settle(wholeMs, perMinute, { cost: 10, used: 4, nowMs: 0 }), 4000);
  assert.equal(settle(wholeMs, perMinute, { cost: 10, used: 25, nowMs: 0 }), 25_000);
  assert.equal(settle(wholeMs, perMinute, { cost: 10, used: 0, nowMs: 3000 }), 3000);
  assert.equal(settle(0, perMinute, { cost: 10, used: 12, nowMs: 3000 }), 5000);
});

test("in any time, at most the burst and what the time allows is spent", () => {
  const wait = fc.nat(5000);
  const cost = fc.integer({ min: 1, max: 10 });
  fc.assert(
    fc.property(fc.array(fc.tuple(wait, cost), { maxLength: 60 }), (steps) => {
      let [wholeMs, nowMs] = [0, 0];
      const spent: { atMs: number; cost: number }[] = [];
      for (const [waitMs, wanted] of steps) {
        nowMs += waitMs;
        if (spendableMs(wholeMs, perMinute, wanted) > nowMs) continue;
        wholeMs = spend(wholeMs, perMinute, { cost: wanted, nowMs });
        spent.push({ atMs: nowMs, cost: wanted });
      }
      for (const [at, first] of spent.entries()) {
        let sum = 0;
        for (const each of spent.slice(at)) {
          sum += each.cost;
          assert.ok(sum <= perMinute.burst + (each.atMs - first.atMs) / 1000 + 1e-6);
        }
      }
    }),
  );
});
