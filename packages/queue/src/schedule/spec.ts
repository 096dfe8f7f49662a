/**
 * When a schedule fires: its nominal instants, in the order of time.
 *
 * - `cron` with a fixed hour and minute fires once on each local day: at the end of the gap when clocks are set
 *   forward over the time, and only at the first of two when clocks are set back.
 * - `cron` with a wildcard or a step in hour, minute or second follows real time: nothing in a gap, and both
 *   passes of a repeated hour.
 * - `every` is elapsed time, counted from 1970-01-01T00:00Z plus `offset`.
 */
import { accept } from "../outcome.ts";
import {
  dayMs,
  dayNumber,
  hourMs,
  instantOf,
  minuteMs,
  parseDate,
  secondMs,
  type Zone,
} from "./calendar.ts";
import {
  type Cron,
  countDays,
  countSeconds,
  endOfRun,
  matches,
  nextDay,
  nextSecond,
  type Parsed,
  type Problem,
  parseCron,
  problem,
} from "./cron.ts";

/** A spec as a user writes it. */
export interface SpecText {
  /** Empty with `every`. */
  readonly cron: string;
  /** Empty with `cron`. */
  readonly every: string;
  readonly offset: string;
  readonly tz: string;
  readonly fromMs?: number | undefined;
  readonly untilMs?: number | undefined;
  /** Local dates, and cron expressions of local times, at which nothing fires. */
  readonly except: readonly string[];
}

export interface Spec {
  /** The first nominal instant behind one; undefined when there is none. */
  next(afterMs: number): number | undefined;
  /** The number of nominal instants behind `afterMs`, and not behind `untilMs`. Takes no longer for many instants. */
  count(afterMs: number, untilMs: number): number;
}

const specLimits = { everyMsMin: 1000, everyMsMax: 31_622_400_000, exceptMax: 8 } as const;

/** How far a search goes: 29 February may be eight years away. */
const searchDays = 12 * 366;
/** How many stretches in a row may be excluded: each lasts for an hour or a day, where that is possible. */
const excludedMax = 2000;

const unitMs = { ms: 1, s: secondMs, m: minuteMs, h: hourMs, d: dayMs } as const;

/** A length of time such as `500ms`, `30s`, `5m`, `1.5h` or `7d`; undefined for what is none. */
export function durationMs(text: string): number | undefined {
  const match = /^(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)$/.exec(text.trim());
  if (match === null) return undefined;
  const ms = Math.round(Number(match[1]) * unitMs[match[2] as keyof typeof unitMs]);
  return Number.isSafeInteger(ms) ? ms : undefined;
}

/** `zone` is that of `tz`. */
export function compileSpec(text: SpecText, zone: Zone): Parsed<Spec> {
  if ((text.cron === "") === (text.every === "")) {
    return problem('give either cron, such as "0 9 * * *", or every, such as "15m"');
  }
  const except = readExceptions(text.except);
  if ("why" in except) return except;
  const plain = text.cron === "" ? readEvery(text) : readCron(text, zone);
  if (!plain.ok) return plain;
  const { fromMs, untilMs } = text;
  if (fromMs !== undefined && untilMs !== undefined && fromMs > untilMs) {
    return problem("'from' is later than 'until'; nothing would fire");
  }
  const excluding = except.length === 0 ? plain.value : excludingOf(plain.value, except, zone);
  const next = (afterMs: number): number | undefined => {
    const found = excluding.next(fromMs === undefined ? afterMs : Math.max(afterMs, fromMs - 1));
    return found === undefined || found > (untilMs ?? found) ? undefined : found;
  };
  const count = (afterMs: number, lastMs: number): number => {
    const from = fromMs === undefined ? afterMs : Math.max(afterMs, fromMs - 1);
    const last = Math.min(lastMs, untilMs ?? lastMs);
    return from < last ? excluding.count(from, last) : 0;
  };
  return accept({ next, count });
}

function readEvery({ every, offset }: SpecText): Parsed<Spec> {
  const { everyMsMin, everyMsMax } = specLimits;
  const everyMs = durationMs(every);
  if (everyMs === undefined) {
    return problem(`"${every}" is no length of time; write for example "30s", "15m" or "1h"`);
  }
  if (everyMs < everyMsMin) {
    return problem(
      `every ${every} is too often; the shortest period is 1s. For more, let one task do several things`,
    );
  }
  if (everyMs > everyMsMax) return problem(`every ${every} is too rare; the longest is 366d`);
  const offsetMs = offset === "" ? 0 : durationMs(offset);
  if (offsetMs === undefined || offsetMs >= everyMs) {
    return problem(`"${offset}" is no offset; write a length of time shorter than every`);
  }
  const indexOf = (ms: number): number => Math.floor((ms - offsetMs) / everyMs);
  return accept({
    next: (afterMs) => (indexOf(afterMs) + 1) * everyMs + offsetMs,
    count: (afterMs, untilMs) => Math.max(0, indexOf(untilMs) - indexOf(afterMs)),
  });
}

function readCron({ cron: text, offset }: SpecText, zone: Zone): Parsed<Spec> {
  if (offset !== "") return problem("offset belongs to every; write the minute into cron instead");
  const cron = parseCron(text);
  if (!cron.ok) return cron;
  const { isRealTime } = cron.value;
  const next = isRealTime ? nextInRealTime : nextOnTheWall;
  const count = isRealTime ? countInRealTime : countOnTheWall;
  return accept({
    next: (afterMs) => next(cron.value, zone, afterMs),
    count: (afterMs, untilMs) => count(cron.value, zone, { afterMs, untilMs }),
  });
}

/** The first matching local time behind one. */
function nextLocal(cron: Cron, afterMs: number): number | undefined {
  const from = Math.floor(afterMs / secondMs) + 1;
  const first = Math.floor(from / 86_400);
  const last = first + searchDays;
  let day = nextDay(cron, first, last);
  const rest = day === first ? nextSecond(cron, from - first * 86_400) : undefined;
  if (rest !== undefined) return (first * 86_400 + rest) * secondMs;
  if (day === first) day = nextDay(cron, first + 1, last);
  if (day === undefined) return undefined;
  return (day * 86_400 + (nextSecond(cron, 0) as number)) * secondMs;
}

/** Later local times are never at earlier instants, so the first local time behind the instant's own is enough. */
function nextOnTheWall(cron: Cron, zone: Zone, afterMs: number): number | undefined {
  let localMs: number | undefined = afterMs + zone.offsetMs(afterMs);
  for (;;) {
    localMs = nextLocal(cron, localMs);
    if (localMs === undefined) return undefined;
    const ms = instantOf(zone, localMs);
    if (ms > afterMs) return ms;
  }
}

/** Searches each stretch of time in which the offset stays the same. */
function nextInRealTime(cron: Cron, zone: Zone, afterMs: number): number | undefined {
  let fromMs = afterMs;
  /** The beginning of a stretch may match itself. */
  let backMs = 0;
  for (;;) {
    const offsetMs = zone.offsetMs(fromMs);
    const localMs = nextLocal(cron, fromMs + offsetMs - backMs);
    if (localMs === undefined) return undefined;
    const changeMs = zone.nextChange(fromMs, localMs - offsetMs);
    if (changeMs === undefined) return localMs - offsetMs;
    fromMs = changeMs;
    backMs = 1;
  }
}

interface Span {
  readonly afterMs: number;
  readonly untilMs: number;
}

/** The number of matching local times behind one, and not behind another. */
function countLocal(cron: Cron, { afterMs, untilMs }: Span): number {
  const from = Math.floor(afterMs / secondMs) + 1;
  const end = Math.floor(untilMs / secondMs) + 1;
  if (end <= from) return 0;
  const [first, last] = [Math.floor(from / 86_400), Math.floor(end / 86_400)];
  const whole = countSeconds(cron, 86_400);
  const before = countDays(cron, first, first) * countSeconds(cron, from - first * 86_400);
  const ofLast = countDays(cron, last, last) * countSeconds(cron, end - last * 86_400);
  return countDays(cron, first, last - 1) * whole - before + ofLast;
}

/** Counts in each stretch of time in which the offset stays the same. */
function countInRealTime(cron: Cron, zone: Zone, { afterMs, untilMs }: Span): number {
  let count = 0;
  let fromMs = afterMs;
  while (fromMs < untilMs) {
    const offsetMs = zone.offsetMs(fromMs + 1);
    const changeMs = zone.nextChange(fromMs + 1, untilMs);
    const lastMs = changeMs === undefined ? untilMs : changeMs - 1;
    count += countLocal(cron, { afterMs: fromMs + offsetMs, untilMs: lastMs + offsetMs });
    fromMs = lastMs;
  }
  return count;
}

/** As in real time, but a repeated stretch counts the first time only, and a gap in which a time is missing counts once. */
function countOnTheWall(cron: Cron, zone: Zone, { afterMs, untilMs }: Span): number {
  let count = countInRealTime(cron, zone, { afterMs, untilMs });
  let changeMs = zone.nextChange(afterMs - 2 * dayMs, untilMs);
  for (; changeMs !== undefined; changeMs = zone.nextChange(changeMs, untilMs)) {
    const before = zone.offsetMs(changeMs - 1);
    const after = zone.offsetMs(changeMs);
    if (after < before) {
      const fromMs = Math.max(afterMs, changeMs - 1);
      const lastMs = Math.min(untilMs, changeMs + before - after - 1);
      count -= countLocal(cron, { afterMs: fromMs + after, untilMs: lastMs + after });
    } else if (changeMs > afterMs) {
      const endMs = changeMs + after;
      const missing = countLocal(cron, { afterMs: changeMs + before - 1, untilMs: endMs - 1 });
      const atEnd = countLocal(cron, { afterMs: endMs - 1, untilMs: endMs });
      if (missing > 0 && atEnd === 0) count += 1;
    }
  }
  return count;
}

/** Stretches of time in which nothing fires. */
interface Exception {
  /** For an instant that is excluded, an instant up to which all others are; undefined for all others. */
  readonly endOf: (ms: number) => number | undefined;
  /** Nothing between an instant that is not excluded and this one is. */
  readonly next: (afterMs: number) => number | undefined;
}

function excludingOf(plain: Spec, texts: readonly ReadException[], zone: Zone): Spec {
  const all = texts.map((each) => each(zone));
  const endOf = (ms: number): number | undefined => {
    const ends = all.flatMap((each) => each.endOf(ms) ?? []);
    return ends.length === 0 ? undefined : Math.max(...ends);
  };
  /** Many schedules with the same spec ask for the same instant. */
  let known = { afterMs: 0, foundMs: 0 };
  return {
    next: (afterMs) => {
      if (afterMs >= known.afterMs && afterMs < known.foundMs) return known.foundMs;
      let from = afterMs;
      for (let passed = 0; passed < excludedMax; passed++) {
        const foundMs = plain.next(from);
        if (foundMs === undefined) return undefined;
        const skipTo = endOf(foundMs);
        if (skipTo === undefined) {
          known = { afterMs, foundMs };
          return foundMs;
        }
        from = skipTo;
      }
      return undefined;
    },
    count: (afterMs, untilMs) => {
      let count = 0;
      let from = afterMs;
      while (from < untilMs) {
        const skipTo = endOf(from + 1);
        if (skipTo !== undefined) {
          from = skipTo;
          continue;
        }
        const starts = all.map((each) => each.next(from) ?? Number.POSITIVE_INFINITY);
        const last = Math.max(from + 1, Math.min(untilMs, ...starts.map((ms) => ms - 1)));
        count += plain.count(from, last);
        from = last;
      }
      return count;
    },
  };
}

type ReadException = (zone: Zone) => Exception;

function readExceptions(texts: readonly string[]): readonly ReadException[] | Problem {
  if (texts.length > specLimits.exceptMax) {
    const why = `${texts.length} entries; at most ${specLimits.exceptMax} are allowed`;
    return problem(why, "except");
  }
  const all: ReadException[] = [];
  for (const text of texts) {
    const date = parseDate(text);
    if (date !== undefined) {
      all.push(exceptDate(dayNumber(date)));
      continue;
    }
    const cron = parseCron(text);
    if (!cron.ok) {
      const why = `"${text}" is neither a date such as "2026-12-25" nor cron: ${cron.why}`;
      return problem(why, "except");
    }
    if (cron.value.hasSeconds) {
      const why = `"${text}" has six fields; leave out the seconds, because whole minutes are excepted`;
      return problem(why, "except");
    }
    all.push(exceptCron(cron.value));
  }
  return all;
}

function exceptDate(number: number): ReadException {
  return (zone) => ({
    endOf: (ms) => {
      const localMs = ms + zone.offsetMs(ms);
      return Math.floor(localMs / dayMs) === number
        ? untilLocal(zone, ms, (number + 1) * dayMs)
        : undefined;
    },
    next: (afterMs) => {
      const startMs = number * dayMs - zone.offsetMs(afterMs + 1);
      // Behind a change of the offset, the date may begin earlier, later, or again.
      const changeMs = zone.nextChange(afterMs + 1, startMs + 2 * dayMs);
      return startMs > afterMs ? Math.min(startMs, changeMs ?? startMs) : changeMs;
    },
  });
}

function exceptCron(cron: Cron): ReadException {
  return (zone) => ({
    endOf: (ms) => {
      const localMs = ms + zone.offsetMs(ms);
      return matches(cron, localMs) ? untilLocal(zone, ms, endOfRun(cron, localMs)) : undefined;
    },
    next: (afterMs) => nextInRealTime(cron, zone, afterMs),
  });
}

/** The last millisecond before a local time that follows, or before the offset changes. */
function untilLocal(zone: Zone, ms: number, endLocalMs: number): number {
  const endMs = endLocalMs - zone.offsetMs(ms) - 1;
  return Math.max(ms, (zone.nextChange(ms, endMs) ?? endMs + 1) - 1);
}
