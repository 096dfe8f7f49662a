import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { endTag, startTag } from "./fair-share.ts";

interface TestLane {
  readonly weight: number;
  readonly costs: readonly number[];
  next: number;
  end: number;
  start: number;
  served: number;
}

/** Serves the smallest start tag; each lane always has work. */
function* serve(lanes: readonly TestLane[]): Generator<TestLane> {
  for (let present = 0; ; ) {
    const [first] = lanes.toSorted((a, b) => a.start - b.start) as [TestLane];
    present = first.start;
    const cost = first.costs[first.next % first.costs.length] as number;
    first.next += 1;
    first.served += cost;
    first.end = endTag(first.start, { cost, weight: first.weight });
    first.start = startTag(present, first.end);
    yield first;
  }
}

test("lanes with work get shares by weight, within the largest cost of each", () => {
  const lane = fc.record({
    weight: fc.integer({ min: 1, max: 10 }),
    costs: fc.array(fc.integer({ min: 1, max: 100_000 }), { minLength: 1, maxLength: 5 }),
  });
  fc.assert(
    fc.property(fc.array(lane, { minLength: 2, maxLength: 5 }), (given) => {
      const lanes = given.map((each) => ({ ...each, next: 0, end: 0, start: 0, served: 0 }));
      let steps = 0;
      for (const _ of serve(lanes)) {
        for (const a of lanes) {
          for (const b of lanes) {
            const bound = Math.max(...a.costs) / a.weight + Math.max(...b.costs) / b.weight;
            assert.ok(Math.abs(a.served / a.weight - b.served / b.weight) <= bound + 1e-6);
          }
        }
        steps += 1;
        if (steps === 200) return;
      }
    }),
  );
});

test("a lane that comes back has saved nothing up, and still owes what it took", () => {
  assert.equal(startTag(50, 10), 50);
  assert.equal(startTag(50, 80), 80);
});
