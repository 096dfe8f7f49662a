import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { SimRandom } from "../../../simulated/src/index.ts";
import { TaskIds } from "./task-ids.ts";

function setup(): TaskIds {
  const random = new SimRandom(1);
  return new TaskIds((into) => random.bytes(into));
}

test("an id is a UUID of version 7 that begins with the time", () => {
  const ids = setup();
  const id = ids.next(0x0123_4567_89ab);
  assert.match(id, /^01234567-89ab-7000-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test("ids grow strictly, whatever the clock does", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -5, max: 5 }), { maxLength: 300 }), (steps) => {
      const ids = setup();
      let nowMs = 1_700_000_000_000;
      let before = "";
      for (const step of steps) {
        nowMs += step;
        const id = ids.next(nowMs);
        assert.ok(id > before, `${id} after ${before}`);
        before = id;
      }
    }),
  );
});

test("more ids in a millisecond than the counter holds run over into the time", () => {
  const ids = setup();
  const all = Array.from({ length: 10_000 }, () => ids.next(1_700_000_000_000));
  assert.deepEqual(all.toSorted(), all);
  assert.equal(new Set(all).size, all.length);
  assert.ok(all.every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/.test(id)));
});
