/** The rule of schedules: every nominal instant is fired or skipped exactly once, and overlap holds. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { utc } from "./calendar.ts";
import {
  afterEnd,
  countOutcome,
  type Fired,
  fire,
  newScheduleState,
  nextNominal,
  pauseSchedule,
  resumeSchedule,
  type SchedulePolicy,
  type ScheduleState,
  skipHeld,
  spreadDelayMs,
} from "./schedule.ts";
import { compileSpec, type Spec } from "./spec.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const startMs = 1_767_225_600_000;

function specOf(text: { cron?: string; every?: string }): Spec {
  const rest = { offset: "", tz: "UTC", fromMs: undefined, untilMs: undefined, except: [] };
  const spec = compileSpec({ cron: "", every: "", ...rest, ...text }, utc);
  assert.ok(spec.ok);
  return spec.value;
}

const policy: SchedulePolicy = {
  overlap: "allow",
  catchUp: "latest",
  withinMs: undefined,
  delayMs: 0,
  times: 0,
  pauseAfterFailures: 0,
};
const hourly = specOf({ every: "1h" });

interface At {
  readonly state?: ScheduleState;
  readonly nowMs: number;
  readonly live?: number;
  readonly room?: number;
}

function fired(changes: Partial<SchedulePolicy>, at: At, spec = hourly): Fired {
  const { state = newScheduleState(startMs), nowMs, live = 0, room = 1000 } = at;
  return fire(spec, { ...policy, ...changes }, state, { nowMs, live, room });
}

const hours = (count: number): number => startMs + count * hourMs;

test("nothing fires early", () => {
  assert.deepEqual(fired({}, { nowMs: hours(1) - 1 }).fire, []);
  assert.deepEqual(fired({}, { nowMs: hours(1) }).fire, [hours(1)]);
  assert.deepEqual(fired({ delayMs: 5 }, { nowMs: hours(1) + 4 }).fire, []);
  assert.deepEqual(fired({ delayMs: 5 }, { nowMs: hours(1) + 5 }).fire, [hours(1)]);
});

test("latest creates one task for all that was missed, and counts the others", () => {
  const { fire: nominal, state, skipped } = fired({}, { nowMs: hours(5) });
  assert.deepEqual(nominal, [hours(5)]);
  assert.deepEqual(
    skipped.map(({ why, count }) => [why, count]),
    [
      ["late", 3],
      ["superseded", 1],
    ],
  );
  assert.equal(state.handledMs, hours(5));
});

test("none creates nothing that is more than a minute late", () => {
  const late = fired({ catchUp: "none" }, { nowMs: hours(1) + minuteMs + 1 });
  assert.deepEqual([late.fire, late.skipped[0]?.why], [[], "late"]);
  assert.deepEqual(fired({ catchUp: "none" }, { nowMs: hours(1) + minuteMs }).fire, [hours(1)]);
});

test("all creates every task, at most a thousand and none older than within", () => {
  assert.equal(fired({ catchUp: "all" }, { nowMs: hours(30) }).fire.length, 30);
  const bounded = fired({ catchUp: "all", withinMs: 2 * hourMs }, { nowMs: hours(30) });
  assert.deepEqual(bounded.fire, [hours(28), hours(29), hours(30)]);
  const many = fired({ catchUp: "all" }, { nowMs: hours(3000), room: 5000 });
  assert.equal(many.fire.length, 1000);
  assert.equal(many.fire.at(-1), hours(3000));
  assert.equal(many.state.skipped.late, 2000);
});

test("a year of seconds is decided about at once", () => {
  const yearMs = 365 * 24 * hourMs;
  const input = { nowMs: startMs + yearMs + 1 };
  for (const spec of [specOf({ every: "1s" }), specOf({ cron: "* * * * * *" })]) {
    const { fire: nominal, state } = fired({}, input, spec);
    assert.deepEqual(nominal, [startMs + yearMs]);
    assert.deepEqual([state.skipped.late, state.skipped.superseded], [31_532_400, 3599]);
    const [late, superseded] = state.skips;
    const onTimeMs = startMs + yearMs - hourMs;
    assert.deepEqual([late?.toMs, superseded?.fromMs], [onTimeMs, onTimeMs + 1000]);
    const all = fired({ catchUp: "all" }, { ...input, room: 9999 }, spec);
    assert.deepEqual([all.fire.length, all.fire.at(-1)], [1000, startMs + yearMs]);
    assert.equal(all.state.skipped.late, yearMs / 1000 - 1000);
    const paused = pauseSchedule(newScheduleState(startMs), { by: "ann", reason: "", atMs: 1 });
    const resumed = resumeSchedule(spec, policy, paused, input.nowMs);
    assert.equal(resumed.state.skipped.paused, yearMs / 1000);
    assert.equal(resumed.state.handledMs, startMs + yearMs);
  }
});

test("a clock that was set back fires nothing twice", () => {
  const { state } = fired({}, { nowMs: hours(1) });
  assert.deepEqual(fired({}, { state, nowMs: startMs + 1 }).fire, []);
  assert.deepEqual(fired({}, { state, nowMs: hours(1) }).fire, []);
});

test("overlap skip creates nothing while a task is live", () => {
  const busy = fired({ overlap: "skip" }, { nowMs: hours(1), live: 1 });
  assert.deepEqual([busy.fire, busy.skipped[0]?.why], [[], "overlap"]);
  const several = fired({ overlap: "skip", catchUp: "all" }, { nowMs: hours(3) });
  assert.deepEqual([several.fire, several.state.skipped.overlap], [[hours(1)], 2]);
});

test("overlap one lets one wait until the running task has ended", () => {
  const one = { overlap: "one", catchUp: "all" } as const;
  const { state, fire: nominal } = fired(one, { nowMs: hours(2), live: 1 });
  assert.deepEqual([nominal, state.waitingMs, state.skipped.overlap], [[], hours(1), 1]);
  const input = { nowMs: hours(2) + 5, live: 0, room: 1 };
  assert.equal(afterEnd({ ...policy, ...one }, state, { ...input, live: 1 }), undefined);
  const next = afterEnd({ ...policy, ...one }, state, input);
  assert.deepEqual(
    [next?.fire, next?.state.waitingMs, next?.state.fired],
    [[hours(1)], undefined, 1],
  );
});

test("overlap replace cancels the running task, and the newest waits", () => {
  const replace = { overlap: "replace", catchUp: "all" } as const;
  const { state, cancels } = fired(replace, { nowMs: hours(2), live: 1 });
  assert.deepEqual([cancels, state.waitingMs, state.skipped.replaced], [true, hours(2), 1]);
});

test("a schedule with times ends after so many tasks", () => {
  const { state, fire: nominal } = fired({ times: 2, catchUp: "all" }, { nowMs: hours(5) });
  assert.deepEqual(nominal, [hours(1), hours(2)]);
  assert.equal(nextNominal(hourly, { ...policy, times: 2 }, state), undefined);
});

test("what was due during a pause is skipped", () => {
  const pause = { by: "ann", reason: "deploy", atMs: startMs };
  const paused = pauseSchedule(newScheduleState(startMs), pause);
  assert.equal(nextNominal(hourly, policy, paused), undefined);
  const { state, fire: nominal } = resumeSchedule(hourly, policy, paused, hours(3) + 1);
  assert.deepEqual([nominal, state.skipped.paused, state.pause], [[], 3, undefined]);
  assert.equal(nextNominal(hourly, policy, state), hours(4));
});

test("a task that waited when the schedule was paused is skipped", () => {
  const { state } = fired({ overlap: "one" }, { nowMs: hours(1), live: 1 });
  const paused = pauseSchedule(state, { by: "ann", reason: "", atMs: hours(1) });
  const input = { nowMs: hours(1), live: 0, room: 1 };
  const ended = afterEnd({ ...policy, overlap: "one" }, paused, input);
  assert.deepEqual([ended?.fire, ended?.state.skipped.paused], [[], 1]);
});

test("failures in a row pause the schedule, and a success forgets them", () => {
  const strict = { ...policy, pauseAfterFailures: 2 };
  const failed = { hasFailed: true, nowMs: startMs };
  let state = countOutcome(strict, newScheduleState(startMs), failed);
  assert.deepEqual([state.failures, state.pause], [1, undefined]);
  assert.equal(countOutcome(strict, state, { ...failed, hasFailed: false }).failures, 0);
  state = countOutcome(strict, state, failed);
  assert.deepEqual(state.pause, { by: "server", reason: "2 tasks failed in a row", atMs: startMs });
});

test("a tenant without room for a task gets a counted skip", () => {
  const { state, fire: nominal } = fired({}, { nowMs: hours(1), room: 0 });
  assert.deepEqual([nominal, state.skipped.quota], [[], 1]);
});

test("instants that get no task because of a unique key are skipped, and do not count for times", () => {
  const all = { catchUp: "all", times: 3 } as const;
  const before = { ...newScheduleState(startMs), firedMs: startMs, fired: 1 };
  const outcome = fired(all, { state: before, nowMs: hours(2) });
  const { state, fire: nominal, skipped } = skipHeld(before, outcome, [hours(1), hours(2)]);
  assert.deepEqual([nominal, state.fired, state.firedMs], [[], 1, startMs]);
  assert.equal(state.skipped.unique, 2);
  assert.deepEqual(skipped, [{ why: "unique", fromMs: hours(1), toMs: hours(2), count: 2 }]);
  assert.equal(nextNominal(hourly, { ...policy, ...all }, state), hours(3));
  assert.deepEqual(skipHeld(before, outcome, [hours(1)]).fire, [hours(2)]);
  assert.equal(skipHeld(before, outcome, []), outcome);
});

test("skips are kept as stretches that no task interrupts", () => {
  let state = newScheduleState(startMs);
  for (const [at, live] of [1, 1, 0, 1].entries()) {
    ({ state } = fired({ overlap: "skip" }, { state, nowMs: hours(at + 1), live }));
  }
  assert.deepEqual(
    state.skips.map(({ fromMs, toMs, count }) => [fromMs, toMs, count]),
    [
      [hours(1), hours(2), 2],
      [hours(4), hours(4), 1],
    ],
  );
});

test("the share in a spread is stable and lies within the spread", () => {
  const delays = Array.from({ length: 1000 }, (_, at) => spreadDelayMs(`id-${at}`, 600_000));
  assert.ok(delays.every((ms) => ms >= 0 && ms < 600_000));
  assert.ok(new Set(delays).size > 900);
  assert.equal(spreadDelayMs("id-1", 600_000), delays[1]);
  assert.equal(spreadDelayMs("id-1", 0), 0);
});
