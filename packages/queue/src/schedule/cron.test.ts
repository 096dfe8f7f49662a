/** What a cron expression means, and how mistakes are refused. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { civilDate, dayNumber, utc, weekdayOf } from "./calendar.ts";
import { compileSpec, durationMs, type SpecText } from "./spec.ts";

const none = {
  cron: "",
  every: "",
  offset: "",
  tz: "UTC",
  fromMs: undefined,
  untilMs: undefined,
  except: [],
};

function days(cron: string, count: number, from = "2026-01-01"): string[] {
  const spec = compileSpec({ ...none, cron }, utc);
  assert.ok(spec.ok, spec.ok ? "" : spec.why);
  const [year, month, day] = from.split("-").map(Number) as [number, number, number];
  let at: number | undefined = dayNumber({ year, month, day }) * 86_400_000 - 1;
  const found: string[] = [];
  for (; found.length < count; ) {
    at = spec.value.next(at);
    if (at === undefined) break;
    const date = civilDate(Math.floor(at / 86_400_000));
    found.push(`${date.year}-${date.month}-${date.day}`);
  }
  return found;
}

test("the calendar counts days as the Gregorian calendar does", () => {
  for (let number = -200_000; number < 200_000; number += 37) {
    assert.equal(dayNumber(civilDate(number)), number);
  }
  assert.deepEqual(civilDate(0), { year: 1970, month: 1, day: 1 });
  assert.deepEqual(civilDate(11_016), { year: 2000, month: 2, day: 29 });
  assert.equal(weekdayOf(0), 4);
});

test("last days, nth weekdays, last weekdays and leap days", () => {
  assert.deepEqual(days("0 0 L * *", 3), ["2026-1-31", "2026-2-28", "2026-3-31"]);
  assert.deepEqual(days("0 0 * * MON#2", 2), ["2026-1-12", "2026-2-9"]);
  assert.deepEqual(days("0 0 * * 5L", 2), ["2026-1-30", "2026-2-27"]);
  assert.deepEqual(days("0 0 29 2 *", 2), ["2028-2-29", "2032-2-29"]);
  assert.deepEqual(days("0 0 29 FEB *", 1, "2097-01-01"), ["2104-2-29"]);
});

test("a day fits when the day of month or the weekday fits, if both are restricted", () => {
  assert.deepEqual(days("0 0 13 * FRI", 4), ["2026-1-2", "2026-1-9", "2026-1-13", "2026-1-16"]);
  assert.deepEqual(days("0 0 * * 7", 1), ["2026-1-4"]);
  assert.deepEqual(days("0 0 1 */6 ?", 3), ["2026-1-1", "2026-7-1", "2027-1-1"]);
});

const mistakes: readonly [Partial<SpecText>, RegExp][] = [
  [{ cron: "0 0 30 2 *" }, /never fires: no month that it names has such a day/],
  [{ cron: "0 0 31 4,6,9,11 *" }, /never fires/],
  [{ cron: "* * *" }, /5 fields .* this has 3/],
  [{ cron: "60 * * * *" }, /"60" is no minute: it is out of range; use 0 to 59/],
  [{ cron: "* 24 * * *" }, /"24" is no hour/],
  [{ cron: "* * 0 * *" }, /"0" is no day of month/],
  [{ cron: "* * * FOO *" }, /"FOO" is no month: it is not known; use 1 to 12 or JAN to DEC/],
  [{ cron: "* * * * 8" }, /"8" is no weekday/],
  [{ cron: "*/0 * * * *" }, /no step/],
  [{ cron: "*/5/5 * * * *" }, /two steps/],
  [{ cron: "0 22-4 * * *" }, /a range goes up; write "22-23,0-4" to wrap/],
  [{ cron: "0 0 15W * *" }, /only L, the last day, is known/],
  [{ cron: "@fortnightly" }, /@fortnightly is unknown; use one of @yearly/],
  [{ cron: "" }, /give either cron/],
  [{ cron: "0 9 * * *", every: "5m" }, /give either cron/],
  [{ every: "500ms" }, /too often; the shortest period is 1s/],
  [{ every: "soon" }, /no length of time/],
  [{ every: "400d" }, /too rare/],
  [{ every: "5m", offset: "5m" }, /no offset/],
  [{ cron: "0 9 * * *", offset: "5m" }, /offset belongs to every/],
  [{ cron: "0 9 * * *", except: ["2026-02-30"] }, /neither a date .* nor cron/],
  [{ cron: "0 9 * * *", except: Array.from({ length: 9 }, () => "2026-01-01") }, /at most 8/],
  [{ cron: "0 9 * * *", fromMs: 2, untilMs: 1 }, /'from' is later than 'until'/],
];

for (const [text, why] of mistakes) {
  test(`${JSON.stringify(text)} is refused with what to do`, () => {
    const spec = compileSpec({ ...none, ...text }, utc);
    assert.ok(!spec.ok);
    assert.match(spec.why, why);
  });
}

const dayMs = 86_400_000;

test("days of seconds that are excepted are passed over at once", () => {
  const except = ["* 1-23 * * *", "1-59 0 * * *"];
  for (const when of [{ cron: "* * * * * *" }, { every: "1s" }]) {
    let looks = 0;
    const offsetMs = (): number => {
      looks += 1;
      return 0;
    };
    const spec = compileSpec({ ...none, ...when, except }, { ...utc, offsetMs });
    assert.ok(spec.ok);
    for (let day = 0; day < 500; day++) {
      assert.equal(spec.value.next(day * dayMs + 59_000), (day + 1) * dayMs);
    }
    // A search from second to second looks 86,400 times for each, and takes a quarter of a second.
    assert.ok(looks < 500 * 20, `${looks} looks`);
    assert.equal(spec.value.count(0, 500 * dayMs), 500 * 60);
    assert.ok(looks < 500 * 40, `${looks} looks`);
  }
});

test("minutes that are excepted in turn leave the one that is not", () => {
  const except = ["*/2 * * * *", "1-57/2 * * * *"];
  const spec = compileSpec({ ...none, cron: "* * * * * *", except }, utc);
  assert.ok(spec.ok);
  assert.equal(spec.value.next(0), 59 * 60_000);
});

test("a spec that is excepted for ever never fires, and says so quickly", () => {
  const spec = compileSpec({ ...none, cron: "0 9 * * *", except: ["* * * * *"] }, utc);
  assert.ok(spec.ok);
  assert.equal(spec.value.next(0), undefined);
});

test("from, until and lengths of time", () => {
  const spec = compileSpec({ ...none, every: "1m", fromMs: 90_000, untilMs: 180_000 }, utc);
  assert.ok(spec.ok);
  assert.deepEqual(
    [spec.value.next(0), spec.value.next(120_000), spec.value.next(180_000)],
    [120_000, 180_000, undefined],
  );
  assert.equal(spec.value.count(0, 1_000_000), 2);
  assert.deepEqual(["1.5h", "250ms", "7d", "5", "-1s", "1w"].map(durationMs), [
    5_400_000,
    250,
    604_800_000,
    undefined,
    undefined,
    undefined,
  ]);
});
