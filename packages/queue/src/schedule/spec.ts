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
  matchesSecond,
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
  /** The number of nominal instants behind `afterMs`, and not behind `untilMs`, when that needs no search. */
  count(afterMs: number, untilMs: number): number | undefined;
}

const specLimits = { everyMsMin: 1000, everyMsMax: 31_622_400_000, exceptMax: 8 } as const;

/** How far a search goes: 29 February may be eight years away. */
const searchDays = 12 * 366;
/** How many instants in a row may be excluded, and how often a search goes on behind a stretch of them. */
const excludedMax = 100_000;
const stretchesMax = 10_000;

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
  const within = (ms: number | undefined): number | undefined =>
    ms === undefined || ms > (untilMs ?? ms) ? undefined : ms;
  const next = (afterMs: number): number | undefined => {
    let from = fromMs === undefined ? afterMs : Math.max(afterMs, fromMs - 1);
    const steps = { left: excludedMax };
    for (let tried = 0; tried < stretchesMax && steps.left > 0; tried++) {
      const found = within(plain.value.next(from));
      if (found === undefined || except.length === 0) return found;
      const excludedTo = endOfExcluded(except, { cron: plain.value.cron, ms: found, zone, steps });
      if (excludedTo === undefined) return found;
      from = excludedTo;
    }
    return undefined;
  };
  const count = (afterMs: number, lastMs: number): number | undefined => {
    if (except.length > 0) return undefined;
    const from = Math.max(afterMs, (fromMs ?? afterMs) - (fromMs === undefined ? 0 : 1));
    return plain.value.count(from, Math.min(lastMs, untilMs ?? lastMs));
  };
  return accept({ next, count });
}

/** A spec without its exceptions. */
interface PlainSpec extends Spec {
  /** Undefined with `every`. */
  readonly cron: Cron | undefined;
}

function readEvery({ every, offset }: SpecText): Parsed<PlainSpec> {
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
    cron: undefined,
    next: (afterMs) => (indexOf(afterMs) + 1) * everyMs + offsetMs,
    count: (afterMs, untilMs) => Math.max(0, indexOf(untilMs) - indexOf(afterMs)),
  });
}

function readCron({ cron: text, offset }: SpecText, zone: Zone): Parsed<PlainSpec> {
  if (offset !== "") return problem("offset belongs to every; write the minute into cron instead");
  const cron = parseCron(text);
  if (!cron.ok) return cron;
  const next = cron.value.isRealTime ? nextInRealTime : nextOnTheWall;
  return accept({
    cron: cron.value,
    next: (afterMs) => next(cron.value, zone, afterMs),
    count: () => undefined,
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

/** A local date, as its number of days, or local times at which nothing fires. */
type Exception = number | Cron;

function readExceptions(texts: readonly string[]): readonly Exception[] | Problem {
  if (texts.length > specLimits.exceptMax) {
    return problem(
      `except has ${texts.length} entries; at most ${specLimits.exceptMax} are allowed`,
    );
  }
  const all: Exception[] = [];
  for (const text of texts) {
    const date = parseDate(text);
    if (date !== undefined) {
      all.push(dayNumber(date));
      continue;
    }
    const cron = parseCron(text);
    if (!cron.ok) {
      return problem(
        `except "${text}" is neither a date such as "2026-12-25" nor cron: ${cron.why}`,
      );
    }
    all.push(cron.value);
  }
  return all;
}

/**
 * For an instant that is excluded, an instant up to which all others are; undefined for all others. Looks through the
 * rest of the local day at once: going on from each excluded instant to the next takes milliseconds for a day of seconds.
 */
function endOfExcluded(
  except: readonly Exception[],
  at: {
    readonly cron: Cron | undefined;
    readonly ms: number;
    readonly zone: Zone;
    /** How many excluded instants may still be looked at. */
    readonly steps: { left: number };
  },
): number | undefined {
  const { cron, ms, zone, steps } = at;
  const offsetMs = zone.offsetMs(ms);
  const day = Math.floor((ms + offsetMs) / dayMs);
  const second = Math.floor((ms + offsetMs - day * dayMs) / secondMs);
  const ofDay = except.filter(
    (each): each is Cron => typeof each !== "number" && nextDay(each, day, day) !== undefined,
  );
  let end = except.includes(day) ? daySeconds : second;
  while (end < daySeconds && steps.left > 0) {
    const behind = excludedUntil(ofDay, end);
    if (behind === end) break;
    steps.left -= 1;
    end = cron === undefined ? behind : (nextSecond(cron, behind) ?? daySeconds);
  }
  if (end === second) return undefined;
  // The last instant before the offset changes may be earlier.
  const endMs = day * dayMs + end * secondMs - offsetMs - 1;
  return Math.max(ms, (zone.nextChange(ms, endMs) ?? endMs + 1) - 1);
}

const daySeconds = dayMs / secondMs;

/** The second behind a stretch that one of these excludes; the same second when none does. */
function excludedUntil(except: readonly Cron[], second: number): number {
  for (const each of except) {
    if (!matchesSecond(each, second)) continue;
    if (each.hasSeconds && !each.seconds.isFull) return second + 1;
    if (!each.minutes.isFull) return second - (second % 60) + 60;
    return each.hours.isFull ? daySeconds : second - (second % 3600) + 3600;
  }
  return second;
}
