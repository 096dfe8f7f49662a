import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "@codeq/simulated";
import { StallWatch } from "./stall-watch.ts";

function setup(): {
  readonly clock: SimClock;
  readonly watch: StallWatch;
  readonly stalls: number[];
  readonly need: { isThere: boolean };
} {
  const clock = new SimClock();
  const stalls: number[] = [];
  const need = { isThere: true };
  const watch = new StallWatch({
    clock,
    isNeeded: () => need.isThere,
    onStall: (stalledMs) => stalls.push(stalledMs),
  });
  return { clock, watch, stalls, need };
}

test("time that passes while the process runs is no stall", async () => {
  const { clock, watch, stalls } = setup();
  watch.wake();
  await clock.advance(60_000);
  clock.stall(400);
  await clock.advance(60_000);
  assert.deepEqual(stalls, []);
});

test("S27: a gap between two looks is told once, less what may have been no gap", async () => {
  const { clock, watch, stalls } = setup();
  watch.wake();
  await clock.advance(1000);
  clock.stall(401);
  await clock.advance(0);
  clock.stall(60_000);
  await clock.advance(10_000);
  assert.deepEqual(stalls, [201, 59_800]);
});

test("S27: whoever looks before the timer has run learns of the stall first", async () => {
  const { clock, watch, stalls } = setup();
  watch.wake();
  clock.stall(5000);
  watch.look();
  assert.deepEqual(stalls, [4800]);
  await clock.advance(1000);
  assert.deepEqual(stalls, [4800]);
});

test("a watch that nobody needs sets no timer, and what passed meanwhile is no stall", async () => {
  const { clock, watch, stalls, need } = setup();
  need.isThere = false;
  watch.wake();
  watch.look();
  assert.equal(clock.timers, 0);
  need.isThere = true;
  watch.wake();
  watch.wake();
  assert.equal(clock.timers, 1);
  need.isThere = false;
  await clock.advance(1000);
  assert.equal(clock.timers, 0);
  clock.stall(60_000);
  need.isThere = true;
  watch.wake();
  await clock.advance(1000);
  assert.deepEqual(stalls, []);
  watch[Symbol.dispose]();
  assert.equal(clock.timers, 0);
});
