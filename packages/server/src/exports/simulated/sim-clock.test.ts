import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "./sim-clock.ts";

function setup(): { clock: SimClock; log: string[]; note: (name: string) => () => void } {
  const clock = new SimClock();
  const log: string[] = [];
  const startedMs = clock.monotonicMs();
  const note = (name: string) => () => {
    log.push(`${name}@${clock.monotonicMs() - startedMs}`);
  };
  return { clock, log, note };
}

test("time stands still until it is moved, then both clocks move by the same amount", async () => {
  const { clock } = setup();
  const wallMs = clock.nowMs();
  const monotonicMs = clock.monotonicMs();
  await clock.advance(0);
  assert.equal(clock.nowMs(), wallMs);
  await clock.advance(1234);
  assert.equal(clock.nowMs() - wallMs, 1234);
  assert.equal(clock.monotonicMs() - monotonicMs, 1234);
});

test("due timers run in the order of their times, equal ones in the order they were set", async () => {
  const { clock, log, note } = setup();
  clock.after(20, note("late"));
  clock.after(10, note("first"));
  clock.after(10, note("second"));
  clock.after(31, note("never"));
  await clock.advance(30);
  assert.deepEqual(log, ["first@10", "second@10", "late@20"]);
});

test("a timer that is set while time passes runs at its own time", async () => {
  const { clock, log, note } = setup();
  clock.after(10, () => clock.after(5, note("child")));
  clock.after(12, note("between"));
  await clock.advance(20);
  assert.deepEqual(log, ["between@12", "child@15"]);
});

test("what follows from one timer happens before the next one runs", async () => {
  const { clock, log, note } = setup();
  clock.after(1, () => {
    void Promise.resolve().then(note("promise"));
    setImmediate(() => {
      note("turn")();
      setImmediate(note("second turn"));
    });
  });
  clock.after(1, note("next"));
  await clock.advance(1);
  assert.deepEqual(log, ["promise@1", "turn@1", "second turn@1", "next@1"]);
});

test("a cancelled timer does not run, and cancelling twice does nothing", async () => {
  const { clock, log, note } = setup();
  const cancel = clock.after(5, note("cancelled"));
  cancel();
  cancel();
  await clock.advance(10);
  assert.deepEqual(log, []);
  assert.equal(clock.nextTimerMs, undefined);
});

test("a timer with a delay that has passed runs at the next advance, also one of nothing", async () => {
  const { clock, log, note } = setup();
  clock.after(-5, note("negative"));
  clock.after(0, note("zero"));
  await clock.advance(0);
  assert.deepEqual(log, ["negative@0", "zero@0"]);
});

test("a step of the wall clock moves no timer", async () => {
  const { clock, log, note } = setup();
  const wallMs = clock.nowMs();
  clock.after(10, note("timer"));
  clock.stepWall(-3_600_000);
  assert.equal(clock.nowMs(), wallMs - 3_600_000);
  assert.equal(clock.nextTimerMs, 10);
  await clock.advance(9);
  assert.deepEqual(log, []);
  await clock.advance(1);
  assert.deepEqual(log, ["timer@10"]);
});
