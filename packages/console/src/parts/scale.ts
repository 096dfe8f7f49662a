/** Where the scale of a chart ends: the text of each quarter is exact and short. */

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** The next of 2, 4 or 8 times a power of ten. */
export function niceMax(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([2, 4, 8].find((step) => step * power >= value) ?? 20) * power;
}

/** Quarters of times that are not counted in tens. */
const quarters: readonly number[] = [
  ...[15_000, minuteMs, 2 * minuteMs, 5 * minuteMs, 15 * minuteMs],
  ...[hourMs, 2 * hourMs, 6 * hourMs, dayMs],
];

export function niceTimeMax(ms: number): number {
  if (ms <= 40_000) return niceMax(ms);
  const quarter = quarters.find((each) => 4 * each >= ms);
  return quarter === undefined ? niceMax(ms / dayMs) * dayMs : 4 * quarter;
}
