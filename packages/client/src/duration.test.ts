import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Duration, inWords, toMs, toSeconds } from "./duration.ts";

test("numbers are milliseconds, texts have a unit", () => {
  const cases: [Duration, number][] = [
    [0, 0],
    [1500, 1500],
    ["500ms", 500],
    ["30s", 30_000],
    ["5m", 300_000],
    ["1.5h", 5_400_000],
    ["7d", 604_800_000],
    ["0s", 0],
  ];
  for (const [duration, ms] of cases) assert.equal(toMs(duration, "delay"), ms, String(duration));
});

test("anything else is refused with the name of the option and what to write", () => {
  const bad = ["", "5", "5 s", "s", "-1s", "1e3s", "ten", "5sec", -1, Number.NaN, Infinity, null];
  for (const duration of bad) {
    assert.throws(() => toMs(duration as Duration, "delay"), {
      code: "invalid_option",
      message: /^invalid delay .*: give milliseconds or a text like "30s"/,
    });
  }
});

test("seconds on the wire are never shorter than what was asked for", () => {
  fc.assert(
    fc.property(fc.nat(), (ms) => {
      assert.ok(toSeconds(ms) * 1000 >= ms && toSeconds(ms) * 1000 < ms + 1000);
    }),
  );
});

test("what is written in words is read as the same length", () => {
  fc.assert(
    fc.property(fc.nat(), (ms) => assert.equal(toMs(inWords(ms) as Duration, "delay"), ms)),
  );
  assert.deepEqual([90_000, 3_600_000, 0, 1500].map(inWords), ["90s", "1h", "0ms", "1500ms"]);
});
