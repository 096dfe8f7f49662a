/**
 * Cron expressions: five fields (minute, hour, day of month, month, weekday) or six, with seconds in front.
 *
 * Beside numbers, lists, ranges and steps: names of months and weekdays, `L` for the last day of the month, `5L` for
 * its last Friday, `MON#2` for its second Monday, and `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. When
 * both the day and the weekday are restricted, a day matches that fits one of them.
 */
import { accept, type Outcome } from "../outcome.ts";
import { civilDate, dayNumber, daysInMonth, weekdayOf } from "./calendar.ts";

export interface Cron {
  readonly seconds: Field;
  readonly minutes: Field;
  readonly hours: Field;
  readonly months: Field;
  readonly days: Field;
  readonly weekdays: Field;
  readonly isLastDay: boolean;
  /** Weekdays of which only the last of a month matches. */
  readonly lastWeekdays: readonly number[];
  /** The second Monday of a month, and the like. */
  readonly nthWeekdays: readonly { readonly weekday: number; readonly nth: number }[];
  readonly isAnyDay: boolean;
  readonly isAnyWeekday: boolean;
  readonly hasSeconds: boolean;
  /** Hour, minute or second has a wildcard or a step: the expression follows real time, not the clock on the wall. */
  readonly isRealTime: boolean;
}

/** The values that a field allows. */
interface Field {
  /** The least allowed value at or behind each value; -1 when there is none. */
  readonly next: Int8Array;
  readonly isFull: boolean;
}

interface FieldKind {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  readonly names?: readonly string[];
}

const monthNames = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(" ");
const weekdayNames = "SUN MON TUE WED THU FRI SAT".split(" ");

const second: FieldKind = { name: "second", min: 0, max: 59 };
const minute: FieldKind = { name: "minute", min: 0, max: 59 };
const hour: FieldKind = { name: "hour", min: 0, max: 23 };
const dayOfMonth: FieldKind = { name: "day of month", min: 1, max: 31 };
const monthKind: FieldKind = { name: "month", min: 1, max: 12, names: monthNames };
/** 7 is Sunday as well. */
const weekdayKind: FieldKind = { name: "weekday", min: 0, max: 7, names: weekdayNames };

const shortForms: Readonly<Record<string, string>> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};

/** Why a text is refused, in a sentence that says what to write. */
export interface Problem {
  readonly ok: false;
  readonly code: "invalid_spec";
  readonly why: string;
  /** Which field is wrong, if it is not the one that says when. */
  readonly field?: "except";
}

export function problem(why: string, field?: "except"): Problem {
  return { ok: false, code: "invalid_spec", why, ...(field && { field }) };
}

export type Parsed<Value> = Extract<Outcome<Value, never>, { readonly ok: true }> | Problem;

const example = 'write for example "0 9 * * MON-FRI"';

export function parseCron(text: string): Parsed<Cron> {
  const trimmed = text.trim();
  if (trimmed.startsWith("@")) {
    const long = shortForms[trimmed.toLowerCase()];
    if (long !== undefined) return parseCron(long);
    return problem(`${trimmed} is unknown; use one of ${Object.keys(shortForms).join(", ")}`);
  }
  const fields = trimmed.split(/\s+/);
  if (fields.length !== 5 && fields.length !== 6) {
    const count = trimmed === "" ? 0 : fields.length;
    return problem(
      `a cron expression has 5 fields (minute hour day month weekday), or 6 with seconds in front; this has ${count}; ${example}`,
    );
  }
  const hasSeconds = fields.length === 6;
  const [seconds, minutes, hours, days, months, weekdays] = (
    hasSeconds ? fields : ["0", ...fields]
  ) as [string, string, string, string, string, string];
  const read = {
    seconds: readField(second, seconds),
    minutes: readField(minute, minutes),
    hours: readField(hour, hours),
    months: readField(monthKind, months),
  };
  for (const each of Object.values(read)) if ("why" in each) return each;
  const ofMonth = readDays(days);
  if ("why" in ofMonth) return ofMonth;
  const ofWeek = readWeekdays(weekdays);
  if ("why" in ofWeek) return ofWeek;
  const cron: Cron = {
    ...(read as Record<keyof typeof read, Field>),
    ...ofMonth,
    ...ofWeek,
    hasSeconds,
    isRealTime: [seconds, minutes, hours].some((field) => /[*?/]/.test(field)),
  };
  return hasAnyDay(cron)
    ? accept(cron)
    : problem(
        `"${trimmed}" never fires: no month that it names has such a day; ${example}, or "0 0 L * *" for the last day of each month`,
      );
}

function readField(kind: FieldKind, text: string): Field | Problem {
  const { min, max } = kind;
  const isAllowed = new Uint8Array(max + 1);
  for (const part of text.split(",")) {
    const range = readRange(kind, part);
    if ("why" in range) return range;
    for (let value = range.from; value <= range.to; value += range.step) isAllowed[value] = 1;
  }
  if (kind === weekdayKind && isAllowed[7] === 1) isAllowed[0] = 1;
  const values = kind === weekdayKind ? isAllowed.subarray(0, 7) : isAllowed;
  return fieldOf(values, min);
}

function fieldOf(isAllowed: Uint8Array, min: number): Field {
  const next = new Int8Array(isAllowed.length + 1).fill(-1);
  for (let value = isAllowed.length - 1; value >= 0; value--) {
    next[value] = isAllowed[value] === 1 ? value : (next[value + 1] as number);
  }
  return { next, isFull: isAllowed.subarray(min).every((each) => each === 1) };
}

interface Range {
  readonly from: number;
  readonly to: number;
  readonly step: number;
}

/** Every value, a value, a range, each with a step. */
function readRange(kind: FieldKind, part: string): Range | Problem {
  const { name, min, max } = kind;
  const wrong = (why: string): Problem =>
    problem(`"${part}" is no ${name}: ${why}; use ${min} to ${max}${namesOf(kind)}`);
  const [front = "", stepText, ...more] = part.split("/");
  if (more.length > 0) return wrong("it has two steps");
  const step = stepText === undefined ? 1 : wholeIn(stepText);
  if (step === undefined || step < 1 || step > max) return wrong(`"/${stepText}" is no step`);
  if (front === "*" || front === "?") return { from: min, to: topOf(kind), step };
  const [fromText = "", toText, ...rest] = front.split("-");
  const from = valueIn(kind, fromText);
  const to = toText === undefined ? from : valueIn(kind, toText);
  if (rest.length > 0 || from === undefined || to === undefined) return wrong("it is not known");
  if (from < min || to > max) return wrong("it is out of range");
  if (from > to) {
    return wrong(`a range goes up; write "${fromText}-${topOf(kind)},${min}-${toText}" to wrap`);
  }
  return { from, to: toText === undefined && stepText !== undefined ? topOf(kind) : to, step };
}

function namesOf({ names }: FieldKind): string {
  return names === undefined ? "" : ` or ${names[0]} to ${names.at(-1)}`;
}

/** A wildcard counts Sunday once. */
function topOf(kind: FieldKind): number {
  return kind === weekdayKind ? 6 : kind.max;
}

function valueIn({ min, names }: FieldKind, text: string): number | undefined {
  const at = names?.indexOf(text.toUpperCase()) ?? -1;
  return at < 0 ? wholeIn(text) : at + min;
}

function wholeIn(text: string): number | undefined {
  return /^\d{1,4}$/.test(text) ? Number(text) : undefined;
}

function readDays(text: string): Pick<Cron, "days" | "isLastDay" | "isAnyDay"> | Problem {
  const parts = text.split(",");
  const others = parts.filter((part) => part.toUpperCase() !== "L");
  const isLastDay = others.length < parts.length;
  if (others.some((part) => /[LW]/i.test(part))) {
    return problem(`"${text}" is no day of month: beside numbers only L, the last day, is known`);
  }
  const isAnyDay = text === "*" || text === "?";
  if (others.length === 0) return { days: fieldOf(new Uint8Array(32), 1), isLastDay, isAnyDay };
  const days = readField(dayOfMonth, others.join(","));
  return "why" in days ? days : { days, isLastDay, isAnyDay };
}

function readWeekdays(
  text: string,
): Pick<Cron, "weekdays" | "lastWeekdays" | "nthWeekdays" | "isAnyWeekday"> | Problem {
  const plain: string[] = [];
  const lastWeekdays: number[] = [];
  const nthWeekdays: { weekday: number; nth: number }[] = [];
  for (const part of text.split(",")) {
    const special = /^(\w+?)(?:#([1-5])|(L))$/i.exec(part);
    if (special === null) {
      plain.push(part);
      continue;
    }
    const value = valueIn(weekdayKind, special[1] as string);
    if (value === undefined || value > 7) {
      return problem(`"${part}" is no weekday; write for example MON#2 or FRIL`);
    }
    const weekday = value % 7;
    if (special[2] === undefined) lastWeekdays.push(weekday);
    else nthWeekdays.push({ weekday, nth: Number(special[2]) });
  }
  const isAnyWeekday = text === "*" || text === "?";
  const weekdays =
    plain.length === 0 ? fieldOf(new Uint8Array(7), 0) : readField(weekdayKind, plain.join(","));
  return "why" in weekdays ? weekdays : { weekdays, lastWeekdays, nthWeekdays, isAnyWeekday };
}

/** Whether there is a month with a day that matches; a leap year has every date that exists. */
function hasAnyDay(cron: Cron): boolean {
  const from = dayNumber({ year: 2000, month: 1, day: 1 });
  return nextDay(cron, from, from + 366 * 8) !== undefined;
}

/** The first matching day at or behind a day, and not behind another; both are numbers of days. */
export function nextDay(cron: Cron, from: number, last: number): number | undefined {
  let number = from;
  while (number <= last) {
    const date = civilDate(number);
    const length = daysInMonth(date);
    const monthEnd = number + length - date.day;
    if (allows(cron.months, date.month)) {
      for (; number <= monthEnd && number <= last; number++) {
        const day = length - (monthEnd - number);
        if (matchesDay(cron, { day, length, weekday: weekdayOf(number) })) return number;
      }
    }
    number = monthEnd + 1;
  }
  return undefined;
}

interface DayOfMonth {
  readonly day: number;
  /** The number of days of the month. */
  readonly length: number;
  readonly weekday: number;
}

function matchesDay(cron: Cron, of: DayOfMonth): boolean {
  if (cron.isAnyDay) return cron.isAnyWeekday || matchesWeekday(cron, of);
  if (cron.isAnyWeekday) return matchesDayOfMonth(cron, of);
  return matchesDayOfMonth(cron, of) || matchesWeekday(cron, of);
}

function matchesDayOfMonth({ days, isLastDay }: Cron, { day, length }: DayOfMonth): boolean {
  return allows(days, day) || (isLastDay && day === length);
}

function matchesWeekday(
  { weekdays, lastWeekdays, nthWeekdays }: Cron,
  { day, length, weekday }: DayOfMonth,
): boolean {
  return (
    allows(weekdays, weekday) ||
    (day + 7 > length && lastWeekdays.includes(weekday)) ||
    nthWeekdays.some((each) => each.weekday === weekday && Math.ceil(day / 7) === each.nth)
  );
}

function allows({ next }: Field, value: number): boolean {
  return next[value] === value;
}

/** The first matching second of a day at or behind one; undefined when the day has no more. */
export function nextSecond(cron: Cron, from: number): number | undefined {
  return nextPart(cron.hours, { from, length: 3600 }, (rest) =>
    nextPart(cron.minutes, { from: rest, length: 60 }, (second) => {
      const found = cron.seconds.next[second] ?? -1;
      return found < 0 ? undefined : found;
    }),
  );
}

/** The first allowed hour with a matching minute in it, or the first allowed minute with a matching second in it. */
function nextPart(
  { next }: Field,
  { from, length }: { readonly from: number; readonly length: number },
  inside: (from: number) => number | undefined,
): number | undefined {
  const at = Math.floor(from / length);
  const rest = next[at] === at ? inside(from % length) : undefined;
  if (rest !== undefined) return at * length + rest;
  const later = next[at + 1] ?? -1;
  return later < 0 ? undefined : later * length + (inside(0) as number);
}

/** The number of matching days from one to another, both included. */
export function countDays(cron: Cron, from: number, last: number): number {
  if (cron.isAnyDay && cron.isAnyWeekday && cron.months.isFull) return Math.max(0, last - from + 1);
  let count = 0;
  for (let day = nextDay(cron, from, last); day !== undefined; day = nextDay(cron, day + 1, last)) {
    count += 1;
  }
  return count;
}

/** The number of matching seconds of a day before one of them. */
export function countSeconds({ hours, minutes, seconds }: Cron, end: number): number {
  const [hour, minute, second] = [Math.floor(end / 3600), Math.floor(end / 60) % 60, end % 60];
  const ofMinute = countBelow(seconds, 60);
  const ofHour = countBelow(minutes, 60) * ofMinute;
  const inMinute = allows(minutes, minute) ? countBelow(seconds, second) : 0;
  const inHour = allows(hours, hour) ? countBelow(minutes, minute) * ofMinute + inMinute : 0;
  return countBelow(hours, hour) * ofHour + inHour;
}

function countBelow(field: Field, end: number): number {
  let count = 0;
  for (let value = 0; value < end; value++) if (allows(field, value)) count += 1;
  return count;
}

/** The end of the minutes in a row that match, in the hour or, if all its minutes do, in the day of a local time. */
export function endOfRun({ hours, minutes }: Cron, localMs: number): number {
  const minute = Math.floor(localMs / 60_000);
  const day = Math.floor(minute / 1440);
  const hour = Math.floor(minute / 60) % 24;
  if (!minutes.isFull) {
    const ofHour = minute % 60;
    return (minute - ofHour + endOfAllowed(minutes, ofHour, 60)) * 60_000;
  }
  return (day * 24 + endOfAllowed(hours, hour, 24)) * 3_600_000;
}

function endOfAllowed(field: Field, from: number, end: number): number {
  let value = from;
  while (value < end && allows(field, value)) value += 1;
  return value;
}

/** Whether the minute of a local time matches an expression with five fields. */
export function matches(cron: Cron, localMs: number): boolean {
  const minute = Math.floor(localMs / 60_000);
  const number = Math.floor(minute / 1440);
  const second = (minute - number * 1440) * 60;
  return nextDay(cron, number, number) !== undefined && nextSecond(cron, second) === second;
}
