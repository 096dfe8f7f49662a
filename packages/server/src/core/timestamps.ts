/**
 * Instants as the wire shows them: RFC 3339 with the offset of the configured time zone and up to
 * three fractional digits, none when they are zero. Offsets are looked up once per quarter of an hour,
 * which is the finest step at which any zone changes.
 */
const quarterMs = 15 * 60 * 1000;
const offsetsKept = 4096;

export class Timestamps {
  readonly #format: Intl.DateTimeFormat;
  readonly #offsets: Map<number, number> = new Map();
  #lastSecond: number = Number.NaN;
  #lastText = "";

  constructor(timezone: string) {
    this.#format = new Intl.DateTimeFormat("en-US", {
      timeZone: timezone,
      timeZoneName: "longOffset",
    });
  }

  local(ms: number): string {
    const offsetMinutes = this.#offsetMinutes(ms);
    const text = new Date(ms + offsetMinutes * 60_000).toISOString();
    const fraction = text.slice(19, 23).replace(/\.?0+$/, "");
    return text.slice(0, 19) + fraction + zone(offsetMinutes);
  }

  /** Whole seconds. The last one is kept: tasks handed out together have leases that end together. */
  seconds(ms: number): string {
    const second = Math.floor(ms / 1000);
    if (second !== this.#lastSecond) {
      this.#lastText = this.local(second * 1000);
      this.#lastSecond = second;
    }
    return this.#lastText;
  }

  #offsetMinutes(ms: number): number {
    const quarter = Math.floor(ms / quarterMs);
    let offset = this.#offsets.get(quarter);
    if (offset === undefined) {
      if (this.#offsets.size >= offsetsKept) this.#offsets.clear();
      offset = this.#lookUp(quarter * quarterMs);
      this.#offsets.set(quarter, offset);
    }
    return offset;
  }

  #lookUp(ms: number): number {
    const part = this.#format.formatToParts(ms).find(({ type }) => type === "timeZoneName");
    const match = /^GMT([+-])(\d{2}):(\d{2})/.exec(part?.value ?? "");
    if (match === null) return 0;
    const minutes = Number(match[2]) * 60 + Number(match[3]);
    return match[1] === "-" ? -minutes : minutes;
  }
}

/** The last one, because tasks that are handed out together have leases that end together. */
const lastSecond = { number: Number.NaN, text: "" };

/** Whole seconds, UTC. */
export function utcSeconds(ms: number): string {
  const number = Math.floor(ms / 1000);
  if (number !== lastSecond.number) {
    lastSecond.text = `${new Date(ms).toISOString().slice(0, 19)}Z`;
    lastSecond.number = number;
  }
  return lastSecond.text;
}

function zone(offsetMinutes: number): string {
  if (offsetMinutes === 0) return "Z";
  const minutes = Math.abs(offsetMinutes);
  const two = (number: number): string => String(number).padStart(2, "0");
  return `${offsetMinutes < 0 ? "-" : "+"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

const rfc3339 = /^(\d{4})-(\d{2})-(\d{2})[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$/;

/** RFC 3339 with an offset and an optional fraction, as milliseconds; undefined for anything else. */
export function parseInstant(text: string): number | undefined {
  const match = rfc3339.exec(text);
  if (match === null) return undefined;
  const ms = Date.parse(text.toUpperCase());
  if (Number.isNaN(ms)) return undefined;
  // A day that the month does not have would roll over into the next month.
  const [, year, month, day] = match;
  const daysInMonth = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate();
  return Number(day) > daysInMonth ? undefined : ms;
}
