/** Parses the options of a command; an invalid value is a usage error. */
import { usageError } from "./cli-error.ts";
import type { OptionRow } from "./command.ts";

type OptionValues = ReadonlyMap<string, readonly string[]>;

export class Options {
  readonly #rows: ReadonlyMap<string, OptionRow>;
  readonly #values: OptionValues;

  constructor(rows: readonly OptionRow[], values: OptionValues) {
    this.#rows = new Map(rows.map((row) => [row.name, row]));
    this.#values = values;
  }

  /** Whether it was given; a switch may also be turned off with `=false`. */
  has(name: string): boolean {
    const last = this.#given(name).at(-1);
    return last !== undefined && (this.#row(name).value !== undefined || last !== "false");
  }

  text(name: string): string | undefined {
    const text = this.#given(name).at(-1);
    const { choices } = this.#row(name);
    if (text !== undefined && choices !== undefined && !choices.includes(text)) {
      throw usageError(
        `--${name} must be one of ${choices.join(", ")}, not ${JSON.stringify(text)}`,
      );
    }
    return text;
  }

  texts(name: string): readonly string[] {
    return this.#given(name);
  }

  /** Items of a list: separated by commas, or in several options. */
  list(name: string): readonly string[] {
    return this.#given(name)
      .flatMap((text) => text.split(","))
      .map((item) => item.trim())
      .filter((item) => item !== "");
  }

  wholeNumber(name: string, { min, max }: { min: number; max: number }): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw usageError(
      `--${name} must be a whole number from ${min} to ${max}, not ${JSON.stringify(text)}`,
    );
  }

  durationMs(name: string): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const ms = parseDurationMs(text);
    if (ms !== undefined) return ms;
    const forms = "a number of seconds, or a number with ms, s, m, h or d such as 90s";
    throw usageError(`--${name} must be a time: ${forms}, not ${JSON.stringify(text)}`);
  }

  /** A duration in seconds, to the millisecond. */
  exactSeconds(name: string): number | undefined {
    const ms = this.durationMs(name);
    return ms === undefined ? undefined : ms / 1000;
  }

  /** A duration in seconds, rounded up. */
  seconds(name: string): number | undefined {
    const ms = this.durationMs(name);
    return ms === undefined ? undefined : Math.ceil(ms / 1000);
  }

  /** The text as it was written, so that the server gets all of its digits. */
  instant(name: string): string | undefined {
    const text = this.text(name);
    if (text === undefined || isInstant(text)) return text;
    throw usageError(
      `--${name} must be a time such as 2030-01-02T03:04:05Z, not ${JSON.stringify(text)}`,
    );
  }

  #given(name: string): readonly string[] {
    this.#row(name);
    return this.#values.get(name) ?? [];
  }

  #row(name: string): OptionRow {
    const row = this.#rows.get(name);
    if (row === undefined) throw new Error(`the command has no row for --${name}`);
    return row;
  }
}

/** A date alone would leave open which zone is meant. */
function isInstant(text: string): boolean {
  const form = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i;
  return form.test(text) && !Number.isNaN(Date.parse(text));
}

const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  "": 1000,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Undefined when it is no time. */
export function parseDurationMs(text: string): number | undefined {
  const [, digits, unit = ""] = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)?$/.exec(text.trim()) ?? [];
  const scale = unitMs[unit];
  return digits === undefined || scale === undefined ? undefined : Math.round(+digits * scale);
}
