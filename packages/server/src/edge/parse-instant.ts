/** RFC 3339 with an offset and an optional fraction, as milliseconds; undefined for anything else. */
const pattern = /^(\d{4})-(\d{2})-(\d{2})[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$/;

export function parseInstant(text: string): number | undefined {
  const match = pattern.exec(text);
  if (match === null) return undefined;
  const ms = Date.parse(text.toUpperCase());
  if (Number.isNaN(ms)) return undefined;
  // A day that the month does not have would roll over into the next month.
  const [, year, month, day] = match;
  const daysInMonth = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate();
  return Number(day) > daysInMonth ? undefined : ms;
}
