/**
 * Dates without a clock. A local time is a number of milliseconds since 1970-01-01T00:00 as a calendar on the wall
 * counts them: the same arithmetic as for UTC, and no time zone.
 */

export const secondMs = 1000;
export const minuteMs = 60_000;
export const hourMs = 3_600_000;
export const dayMs = 86_400_000;

export interface CivilDate {
  readonly year: number;
  /** 1 to 12. */
  readonly month: number;
  readonly day: number;
}

/** Days of 400 years, after which the calendar repeats. */
const eraDays = 146_097;
/** From 0000-03-01 to 1970-01-01. Years that begin in March end with the leap day. */
const epochDays = 719_468;

/** The number of days from 1970-01-01 to a date. */
export function dayNumber({ year, month, day }: CivilDate): number {
  const marchYear = month <= 2 ? year - 1 : year;
  const era = Math.floor(marchYear / 400);
  const yearOfEra = marchYear - era * 400;
  const dayOfYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1;
  const leapDays = Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100);
  return era * eraDays + yearOfEra * 365 + leapDays + dayOfYear - epochDays;
}

export function civilDate(number: number): CivilDate {
  const shifted = number + epochDays;
  const era = Math.floor(shifted / eraDays);
  const dayOfEra = shifted - era * eraDays;
  const leapDays =
    Math.floor(dayOfEra / 1460) - Math.floor(dayOfEra / 36_524) + Math.floor(dayOfEra / 146_096);
  const yearOfEra = Math.floor((dayOfEra - leapDays) / 365);
  const dayOfYear =
    dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const marchMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9;
  return {
    year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0),
    month,
    day: dayOfYear - Math.floor((153 * marchMonth + 2) / 5) + 1,
  };
}

const lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const;

export function daysInMonth({ year, month }: Omit<CivilDate, "day">): number {
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return month === 2 && isLeap ? 29 : (lengths[month - 1] as number);
}

/** 0 is Sunday. */
export function weekdayOf(number: number): number {
  return (((number + 4) % 7) + 7) % 7;
}

/** A date such as `2026-12-25`; undefined for what is none. */
export function parseDate(text: string): CivilDate | undefined {
  const match = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text);
  if (match === null) return undefined;
  const [year, month, day] = match.slice(1).map(Number) as [number, number, number];
  const isDate = month >= 1 && month <= 12 && day >= 1 && day <= daysInMonth({ year, month });
  return isDate ? { year, month, day } : undefined;
}

/** The offset of a time zone from UTC, which changes at some instants. */
export interface Zone {
  /** What has to be added to an instant to get the local time. */
  offsetMs(atMs: number): number;
  /** The first instant behind `afterMs`, and not behind `untilMs`, at which the offset changes. */
  nextChange(afterMs: number, untilMs: number): number | undefined;
}

export const utc: Zone = { offsetMs: () => 0, nextChange: () => undefined };

/** No zone is further from UTC than 14 hours. */
const farthestMs = 15 * hourMs;

/**
 * The instant of a local time: the first of two when clocks were set back, and the end of the gap when clocks were
 * set forward over it.
 */
export function instantOf(zone: Zone, localMs: number): number {
  let fromMs = localMs - farthestMs;
  let offsetMs = zone.offsetMs(fromMs);
  for (;;) {
    const changeMs = zone.nextChange(fromMs, localMs + farthestMs);
    if (changeMs === undefined || localMs - offsetMs < changeMs) return localMs - offsetMs;
    offsetMs = zone.offsetMs(changeMs);
    if (localMs - offsetMs < changeMs) return changeMs;
    fromMs = changeMs;
  }
}
