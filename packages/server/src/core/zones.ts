/**
 * Time zones, from the data of the runtime. The offsets of a zone are found year by year and kept, because asking the
 * runtime for one takes microseconds and schedules ask for the same years again and again.
 */
import { utc, type Zone } from "@codeq/queue";

const hourMs = 3_600_000;
/** No zone has changed its offset twice within a day since 1970. */
const stepMs = 24 * hourMs;
const secondMs = 1000;
/** Formatters are large; their answers are kept instead. */
const formattersMax = 16;
/** Names of zones in any mixture of cases are found, so there is no end to them. */
const zonesMax = 2000;
const yearsMax = 4000;

/** The offsets within one year of UTC. */
interface ZoneYear {
  /** The instants at which the offset changes. */
  readonly changesMs: readonly number[];
  /** The offset at the beginning of the year, and behind each change. */
  readonly offsetsMs: readonly number[];
}

export class Zones {
  readonly #zones: Map<string, Zone> = new Map([["UTC", utc]]);
  readonly #formatters: Map<string, Intl.DateTimeFormat> = new Map();
  readonly #years: Map<string, ZoneYear> = new Map();

  /** Undefined for a name that the runtime does not know. */
  find(name: string): Zone | undefined {
    const known = this.#zones.get(name);
    if (known !== undefined) return known;
    if (!isZone(name)) return undefined;
    const zone: Zone = {
      offsetMs: (atMs) => offsetIn(this.#year(name, atMs), atMs),
      nextChange: (afterMs, untilMs) => this.#nextChange(name, afterMs, untilMs),
    };
    evictOldest(this.#zones, zonesMax);
    this.#zones.set(name, zone);
    return zone;
  }

  #nextChange(name: string, afterMs: number, untilMs: number): number | undefined {
    for (let atMs = afterMs; atMs <= untilMs; ) {
      const found = this.#year(name, atMs).changesMs.find((each) => each > afterMs);
      if (found !== undefined) return found <= untilMs ? found : undefined;
      atMs = Date.UTC(new Date(atMs).getUTCFullYear() + 1, 0);
    }
    return undefined;
  }

  #year(name: string, atMs: number): ZoneYear {
    const year = new Date(atMs).getUTCFullYear();
    const key = `${name} ${year}`;
    const known = this.#years.get(key);
    if (known !== undefined) return known;
    const found = this.#read(name, year);
    evictOldest(this.#years, yearsMax);
    this.#years.set(key, found);
    return found;
  }

  /** A change in the very first millisecond of a year belongs to that year. */
  #read(name: string, year: number): ZoneYear {
    const startMs = Date.UTC(year, 0);
    const endMs = Date.UTC(year + 1, 0);
    const format = this.#formatter(name);
    const offsetsMs = [offsetOf(format, startMs)];
    const changesMs: number[] = [];
    let before = offsetOf(format, startMs - secondMs);
    if (before !== offsetsMs[0]) {
      changesMs.push(startMs);
      offsetsMs.unshift(before);
    }
    before = offsetsMs.at(-1) as number;
    for (let fromMs = startMs; fromMs < endMs; fromMs += stepMs) {
      const toMs = Math.min(fromMs + stepMs, endMs - secondMs);
      const after = offsetOf(format, toMs);
      if (after === before) continue;
      changesMs.push(changeBetween(format, fromMs, toMs));
      offsetsMs.push(after);
      before = after;
    }
    return { changesMs, offsetsMs };
  }

  #formatter(name: string): Intl.DateTimeFormat {
    const known = this.#formatters.get(name) ?? formatterOf(name);
    this.#formatters.delete(name);
    evictOldest(this.#formatters, formattersMax);
    this.#formatters.set(name, known);
    return known;
  }
}

function evictOldest(map: Map<string, unknown>, max: number): void {
  if (map.size < max) return;
  const [oldest] = map.keys();
  map.delete(oldest as string);
}

/** Offsets such as `+02:00` are no zones: they would hide that a place has summer time. */
function isZone(name: string): boolean {
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(name)) return false;
  try {
    formatterOf(name);
    return true;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

function formatterOf(timeZone: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat("en-US", {
    timeZone,
    calendar: "gregory",
    numberingSystem: "latn",
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
}

/** At a whole second. Reads `10/25/2026, 02:59:59`. */
function offsetOf(format: Intl.DateTimeFormat, atMs: number): number {
  const numbers = format.format(atMs).match(/\d+/g)?.map(Number) as number[];
  const [month = 1, day = 1, year = 1970, hour = 0, minute = 0, second = 0] = numbers;
  return Date.UTC(year, month - 1, day, hour, minute, second) - atMs;
}

/** The first second at which the offset is no longer that of `fromMs`. */
function changeBetween(format: Intl.DateTimeFormat, fromMs: number, toMs: number): number {
  const before = offsetOf(format, fromMs);
  let low = fromMs;
  let high = toMs;
  while (high - low > secondMs) {
    const middle = low + Math.floor((high - low) / 2 / secondMs) * secondMs;
    if (offsetOf(format, middle) === before) low = middle;
    else high = middle;
  }
  return high;
}

function offsetIn({ changesMs, offsetsMs }: ZoneYear, atMs: number): number {
  let at = 0;
  while (at < changesMs.length && (changesMs[at] as number) <= atMs) at++;
  return offsetsMs[at] as number;
}
