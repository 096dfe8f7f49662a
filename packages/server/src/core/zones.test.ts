/**
 * The calculator of schedules against brute force: every minute around every transition of the time zones, for 30
 * patterns. Brute force knows no cron, no bit fields and no search: it looks at each minute's local time, as the
 * runtime formats it. A short run checks some zones; `npm test -- --long` checks all zones from 2000 to 2040.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { compileSpec, type Spec, type SpecText } from "@codeq/queue";
import { Zones } from "./zones.ts";

const minuteMs = 60_000;
const dayMs = 86_400_000;
/** Longer than the day that Samoa left out. */
const aroundMs = 26 * 3_600_000;

interface Local {
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
  readonly weekday: number;
  readonly isLastDay: boolean;
}

type Pattern = readonly [cron: string, fits: (at: Local) => boolean];

/** Fixed hour and minute: once on each local day. */
const fixed: readonly Pattern[] = [
  ["30 2 * * *", (at) => at.hour === 2 && at.minute === 30],
  ["0 2 * * *", (at) => at.hour === 2 && at.minute === 0],
  ["0 3 * * *", (at) => at.hour === 3 && at.minute === 0],
  ["59 1 * * *", (at) => at.hour === 1 && at.minute === 59],
  ["0 0 * * *", (at) => at.hour === 0 && at.minute === 0],
  ["@daily", (at) => at.hour === 0 && at.minute === 0],
  ["30 0 * * *", (at) => at.hour === 0 && at.minute === 30],
  ["30 23 * * *", (at) => at.hour === 23 && at.minute === 30],
  ["15,45 1,2,3 * * *", (at) => [15, 45].includes(at.minute) && at.hour >= 1 && at.hour <= 3],
  ["0 0-5 * * *", (at) => at.minute === 0 && at.hour <= 5],
  ["30 2 * * SUN", (at) => at.hour === 2 && at.minute === 30 && at.weekday === 0],
  ["0 9 * * 1-5", (at) => at.hour === 9 && at.minute === 0 && at.weekday >= 1 && at.weekday <= 5],
  ["30 1 L * *", (at) => at.hour === 1 && at.minute === 30 && at.isLastDay],
  [
    "30 2 * MAR,OCT 0",
    (at) => at.hour === 2 && at.minute === 30 && [3, 10].includes(at.month) && at.weekday === 0,
  ],
  ["0 1 * * SUN#1", (at) => at.hour === 1 && at.minute === 0 && at.weekday === 0 && at.day <= 7],
  ["5 0 1 * *", (at) => at.hour === 0 && at.minute === 5 && at.day === 1],
];

/** A wildcard or a step: real time. */
const realTime: readonly Pattern[] = [
  ["* * * * *", () => true],
  ["*/5 * * * *", (at) => at.minute % 5 === 0],
  ["*/15 * * * *", (at) => at.minute % 15 === 0],
  ["0 * * * *", (at) => at.minute === 0],
  ["30 * * * *", (at) => at.minute === 30],
  ["@hourly", (at) => at.minute === 0],
  ["0 */2 * * *", (at) => at.minute === 0 && at.hour % 2 === 0],
  ["30 */3 * * *", (at) => at.minute === 30 && at.hour % 3 === 0],
  ["30 1-3/1 * * *", (at) => at.minute === 30 && at.hour >= 1 && at.hour <= 3],
  ["*/10 2 * * *", (at) => at.minute % 10 === 0 && at.hour === 2],
  ["* 1 * * *", (at) => at.hour === 1],
  ["*/30 0-3 * * SUN", (at) => at.minute % 30 === 0 && at.hour <= 3 && at.weekday === 0],
  ["7/20 * * * *", (at) => at.minute >= 7 && (at.minute - 7) % 20 === 0],
  ["0 */6 L * *", (at) => at.minute === 0 && at.hour % 6 === 0 && at.isLastDay],
];

/** One zone of each way to change the clock. */
const samples = [
  "Europe/Paris",
  "America/New_York",
  "Australia/Lord_Howe",
  "America/Sao_Paulo",
  "Africa/Casablanca",
  "Pacific/Apia",
  "Asia/Pyongyang",
  "Africa/Cairo",
  "Antarctica/Troll",
  "America/Caracas",
];

const isLong = process.env["CODEQ_TEST_LONG"] === "true";
const years = isLong ? { from: 2000, to: 2041 } : { from: 2009, to: 2013 };

/** Local time as a number that only the formatter of the runtime decides about. */
function localMinutes(zone: string): (ms: number) => number {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
  });
  const parts = (ms: number): Record<string, number> =>
    Object.fromEntries(format.formatToParts(ms).map(({ type, value }) => [type, Number(value)]));
  return (ms) => {
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0 } = parts(ms);
    return Date.UTC(year, month - 1, day, hour, minute) / minuteMs;
  };
}

function fieldsOf(local: number): Local {
  const at = new Date(local * minuteMs);
  const tomorrow = new Date(at.getTime() + dayMs);
  return {
    month: at.getUTCMonth() + 1,
    day: at.getUTCDate(),
    hour: at.getUTCHours(),
    minute: at.getUTCMinutes(),
    weekday: at.getUTCDay(),
    isLastDay: tomorrow.getUTCDate() === 1,
  };
}

/** A stretch of minutes, with the local time of each. */
interface Stretch {
  readonly startMs: number;
  readonly locals: readonly number[];
  readonly key: string;
}

/** Finds transitions by looking at every hour, and reads each minute around them. */
function* stretchesOf(zone: string): Generator<Stretch> {
  const localOf = localMinutes(zone);
  const offsetAt = (ms: number): number => localOf(ms) - ms / minuteMs;
  let before = offsetAt(Date.UTC(years.from, 0));
  for (let ms = Date.UTC(years.from, 0); ms < Date.UTC(years.to, 0); ms += dayMs / 4) {
    const after = offsetAt(ms);
    if (after === before) continue;
    let changeMs = ms;
    while (offsetAt(changeMs - minuteMs) === after) changeMs -= minuteMs;
    const startMs = changeMs - aroundMs;
    const locals: number[] = [];
    for (let at = startMs; at <= changeMs + aroundMs; at += minuteMs) {
      locals.push(at / minuteMs + (at < changeMs ? before : after));
    }
    // The runtime is asked at the ends and at the change; in between, no zone changes a second time.
    for (const at of [startMs, changeMs - minuteMs, changeMs, changeMs + aroundMs]) {
      const known = locals[(at - startMs) / minuteMs];
      if (localOf(at) !== known) throw new Error(`${zone} changes twice around ${changeMs}`);
    }
    yield { startMs, locals, key: `${changeMs} ${before} ${after}` };
    before = after;
  }
}

/** A fixed local time fires when the clock on the wall first reaches or passes it. */
function bruteForce({ startMs, locals }: Stretch, fits: Pattern[1], isFixed: boolean): number[] {
  const found: number[] = [];
  let reached = locals[0] as number;
  for (let at = 1; at < locals.length; at++) {
    const local = locals[at] as number;
    const passed = isFixed
      ? Array.from({ length: Math.max(0, local - reached) }, (_, step) => reached + step + 1)
      : [local];
    if (passed.some((each) => fits(fieldsOf(each)))) found.push(startMs + at * minuteMs);
    reached = Math.max(reached, local);
  }
  return found;
}

function calculated({ startMs, locals }: Stretch, spec: Spec): number[] {
  const endMs = startMs + (locals.length - 1) * minuteMs;
  const found: number[] = [];
  let at = spec.next(startMs);
  for (; at !== undefined && at <= endMs; at = spec.next(at)) found.push(at);
  return found;
}

const anyTime = { every: "", offset: "", fromMs: undefined, untilMs: undefined, except: [] };

function specOf(zones: Zones, text: Pick<SpecText, "cron" | "tz"> & Partial<SpecText>): Spec {
  const zone = zones.find(text.tz);
  assert.ok(zone !== undefined, text.tz);
  const spec = compileSpec({ ...anyTime, ...text }, zone);
  assert.ok(spec.ok, spec.ok ? "" : spec.why);
  return spec.value;
}

/** Counting finds as many as searching does, wherever it begins and ends. */
function assertCounts(
  { startMs, locals }: Stretch,
  spec: Spec,
  { right, name }: { readonly right: readonly number[]; readonly name: string },
): void {
  const wholeMs = (locals.length - 1) * minuteMs;
  for (const [from, to] of [
    [0, 1],
    [0.3, 0.7],
    [0.49, 0.51],
    [0.5, 1],
    [0.505, 0.515],
  ] as const) {
    const fromMs = startMs + Math.floor(wholeMs * from);
    const toMs = startMs + Math.floor(wholeMs * to);
    const expected = right.filter((ms) => ms > fromMs && ms <= toMs).length;
    assert.equal(spec.count(fromMs, toMs), expected, `${name}: ${fromMs} to ${toMs}`);
  }
}

/** What nothing fires at, and which local times that is. */
const exceptions: readonly (readonly Pattern[])[] = [
  [["* 0-3 * * *", (at) => at.hour <= 3]],
  [["30 2 * * *", (at) => at.hour === 2 && at.minute === 30]],
  [
    ["10-40 * * * *", (at) => at.minute >= 10 && at.minute <= 40],
    ["* * * * SAT,SUN", (at) => at.weekday === 0 || at.weekday === 6],
  ],
  [
    ["*/2 2 * * *", (at) => at.hour === 2 && at.minute % 2 === 0],
    ["59 */2 L * *", (at) => at.minute === 59 && at.hour % 2 === 0 && at.isLastDay],
  ],
];

/** The date of the transition, in local time. */
function dateOf({ locals }: Stretch): Pattern {
  const local = locals[locals.length >> 1] as number;
  const { month, day } = fieldsOf(local);
  const date = new Date(local * minuteMs).toISOString().slice(0, 10);
  return [date, (at) => at.month === month && at.day === day];
}

describe("what is excepted is neither fired nor counted", () => {
  const zones = new Zones();
  const plain = [
    { cron: "*/5 * * * *", isFixed: false, fits: (at: Local) => at.minute % 5 === 0 },
    { cron: "30 0-3 * * *", isFixed: true, fits: (at: Local) => at.minute === 30 && at.hour <= 3 },
  ];
  for (const tz of samples) {
    test(tz, () => {
      for (const stretch of stretchesOf(tz)) {
        for (const except of [...exceptions, [dateOf(stretch)]]) {
          for (const { cron, isFixed, fits } of plain) {
            const spec = specOf(zones, { cron, tz, except: except.map(([text]) => text) });
            const right = bruteForce(stretch, fits, isFixed).filter((ms) => {
              const at = fieldsOf(stretch.locals[(ms - stretch.startMs) / minuteMs] as number);
              return !except.some(([, isExcepted]) => isExcepted(at));
            });
            const name = `${cron} except ${except.map(([text]) => text)} in ${tz}, ${stretch.key}`;
            assert.deepEqual(calculated(stretch, spec), right, name);
            assertCounts(stretch, spec, { right, name });
          }
        }
      }
    });
  }
});

describe("the calculator and brute force agree around every transition", () => {
  const zones = new Zones();
  const known = new Map<string, readonly number[]>();
  let cases = 0;
  for (const zone of isLong ? Intl.supportedValuesOf("timeZone") : samples) {
    test(zone, () => {
      const patterns = [...fixed, ...realTime].map((pattern) => ({
        pattern,
        spec: specOf(zones, { cron: pattern[0], tz: zone }),
      }));
      for (const stretch of stretchesOf(zone)) {
        for (const { pattern, spec } of patterns) {
          const [cron, fits] = pattern;
          // Zones with the same change at the same time have the same local times around it.
          const key = `${stretch.key} ${cron}`;
          const right = known.get(key) ?? bruteForce(stretch, fits, fixed.includes(pattern));
          known.set(key, right);
          const name = `${cron} in ${zone}, ${stretch.key}`;
          assert.deepEqual(calculated(stretch, spec), right, name);
          assertCounts(stretch, spec, { right, name });
          cases += 1;
        }
      }
    });
  }
  test("there were transitions", (context) => {
    assert.ok(cases > 0);
    context.diagnostic(`${cases} cases`);
  });
});

/** The nominal instants of a spec, as texts. */
function instants(
  text: Pick<SpecText, "cron" | "tz"> & Partial<SpecText>,
  from: string,
  count: number,
): string[] {
  const spec = specOf(new Zones(), text);
  const found: string[] = [];
  let at = spec.next(Date.parse(from));
  for (; at !== undefined && found.length < count; at = spec.next(at)) {
    found.push(new Date(at).toISOString().replace(".000Z", "Z"));
  }
  return found;
}

test("a fixed time in the gap fires at the first instant after the gap", () => {
  const cron = { cron: "30 2 * * *", tz: "Europe/Paris" };
  assert.deepEqual(instants(cron, "2026-03-28T12:00:00Z", 2), [
    "2026-03-29T01:00:00Z",
    "2026-03-30T00:30:00Z",
  ]);
});

test("a fixed time that comes twice fires the first time only", () => {
  const cron = { cron: "30 2 * * *", tz: "Europe/Paris" };
  assert.deepEqual(instants(cron, "2026-10-24T12:00:00Z", 2), [
    "2026-10-25T00:30:00Z",
    "2026-10-26T01:30:00Z",
  ]);
});

test("a wildcard fires in both passes of a repeated hour, and not in a gap", () => {
  const cron = { cron: "30 * * * *", tz: "Europe/Paris" };
  assert.deepEqual(instants(cron, "2026-10-25T00:00:00Z", 3), [
    "2026-10-25T00:30:00Z",
    "2026-10-25T01:30:00Z",
    "2026-10-25T02:30:00Z",
  ]);
  const step = { cron: "*/20 2 * * *", tz: "Europe/Paris" };
  assert.deepEqual(instants(step, "2026-03-28T12:00:00Z", 1), ["2026-03-30T00:00:00Z"]);
});

test("every is elapsed time, aligned to 1970, and does not know time zones", () => {
  const every = { cron: "", every: "6h", offset: "1h", tz: "Europe/Paris" };
  assert.deepEqual(instants(every, "2026-03-28T22:00:00Z", 3), [
    "2026-03-29T01:00:00Z",
    "2026-03-29T07:00:00Z",
    "2026-03-29T13:00:00Z",
  ]);
});

test("a whole day that does not exist fires when the next day begins", () => {
  const cron = { cron: "0 9 30 12 *", tz: "Pacific/Apia" };
  assert.deepEqual(instants(cron, "2011-12-01T00:00:00Z", 1), ["2011-12-30T10:00:00Z"]);
});

test("seconds, and dates and expressions that are excepted", () => {
  const seconds = { cron: "*/20 59 23 * * *", tz: "UTC", except: ["2026-01-02"] };
  assert.deepEqual(instants(seconds, "2026-01-01T23:59:10Z", 3), [
    "2026-01-01T23:59:20Z",
    "2026-01-01T23:59:40Z",
    "2026-01-03T23:59:00Z",
  ]);
  const weekdays = { cron: "0 9 * * *", tz: "America/New_York", except: ["* * * * SAT,SUN"] };
  assert.deepEqual(instants(weekdays, "2026-03-06T20:00:00Z", 1), ["2026-03-09T13:00:00Z"]);
});

test("zones that do not exist are not found", () => {
  const zones = new Zones();
  for (const name of ["Europe/Pariss", "", "+02:00", "utc offset", "../etc"]) {
    assert.equal(zones.find(name), undefined, name);
  }
});
