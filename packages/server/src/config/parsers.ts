/**
 * Turns one written value into one typed value, or returns a text with what was expected. A parser accepts
 * what any source can give: text from the environment and from flags, and text, numbers, booleans, lists and
 * maps from the file. It never throws and never repeats the value it refuses.
 */
export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: string };

export interface Parser<T> {
  /** Completes the sentence "expected ...", and is the type column of the manual page. */
  readonly accepts: string;
  /** A valid value, for the fix in a message. */
  readonly example: string;
  /** A flag with this parser may have no value. */
  readonly isSwitch?: true;
  parse(raw: unknown): Parsed<T>;
}

export function parsed<T>(value: T): Parsed<T> {
  return { ok: true, value };
}

export function refused(problem: string): Parsed<never> {
  return { ok: false, problem };
}

export function wholeNumber(min: number, max: number, example: number): Parser<number> {
  const accepts = `a whole number from ${min} to ${max}`;
  return {
    accepts,
    example: String(example),
    parse(raw) {
      const value = typeof raw === "string" && /^-?\d{1,15}$/.test(raw.trim()) ? Number(raw) : raw;
      if (typeof value !== "number" || !Number.isSafeInteger(value)) {
        return refused(`expected ${accepts}`);
      }
      return value >= min && value <= max ? parsed(value) : refused(`expected ${accepts}`);
    },
  };
}

const truths = new Map<unknown, boolean>([
  [true, true],
  ["true", true],
  ["1", true],
  [1, true],
  ["yes", true],
  [false, false],
  ["false", false],
  ["0", false],
  [0, false],
  ["no", false],
]);

export const trueOrFalse: Parser<boolean> = {
  accepts: "true or false (also 1, yes, 0, no)",
  example: "true",
  isSwitch: true,
  parse(raw) {
    const value = truths.get(typeof raw === "string" ? raw.trim().toLowerCase() : raw);
    return value === undefined ? refused(`expected ${this.accepts}`) : parsed(value);
  },
};

/** One of a few words. `synonyms` maps further accepted words, `refusals` answers known wrong ones. */
export function choice<const T extends string>(
  words: readonly [T, ...T[]],
  more: {
    readonly synonyms?: Readonly<Record<string, T>>;
    readonly refusals?: Readonly<Record<string, string>>;
    readonly otherwise?: string;
  } = {},
): Parser<T> {
  const accepts = words.length === 1 ? `\`${words[0]}\`` : `one of ${words.join(", ")}`;
  const synonyms = new Map(Object.entries(more.synonyms ?? {}));
  const refusals = new Map(Object.entries(more.refusals ?? {}));
  return {
    accepts,
    example: words[0],
    parse(raw) {
      const word = typeof raw === "string" ? raw.trim().toLowerCase() : "";
      const value = words.find((known) => known === word) ?? synonyms.get(word);
      if (value !== undefined) return parsed(value);
      return refused(refusals.get(word) ?? more.otherwise ?? `expected ${accepts}`);
    },
  };
}

interface TextRule {
  readonly accepts: string;
  readonly example: string;
  readonly test?: (text: string) => boolean;
}

export function text(rule: TextRule): Parser<string> {
  return {
    accepts: rule.accepts,
    example: rule.example,
    parse(raw) {
      if (typeof raw !== "string") return refused(`expected ${rule.accepts}, in quotes`);
      const value = raw.trim();
      const fits = value !== "" && !value.includes("\0") && (rule.test?.(value) ?? true);
      return fits ? parsed(value) : refused(`expected ${rule.accepts}`);
    },
  };
}

/** Items separated by commas, each of which fits the pattern. Kept as the text that was written. */
export function list(rule: {
  readonly of: string;
  readonly pattern: RegExp;
  readonly example: string;
}): Parser<string> {
  return text({
    accepts: `${rule.of} separated by commas`,
    example: rule.example,
    test: (items) => items.split(",").every((item) => rule.pattern.test(item.trim())),
  });
}

const unitMs: ReadonlyMap<string, number> = new Map([
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
  ["ms", 1],
  ["us", 0.001],
  ["ns", 0.000_001],
]);
/** A duration below a millisecond makes no sense, so a bare number from here on counts nanoseconds. */
const nanosecondsFrom = 1_000_000;

/**
 * A length of time, in milliseconds: text such as `90s` or `1h30m`, or a number. Files of the
 * Go server contain nanoseconds; a number that is too small for nanoseconds is in seconds.
 */
export function duration(min: string, max: string, example: string): Parser<number> {
  const minMs = msOf(min) ?? 0;
  const maxMs = msOf(max) ?? 0;
  const accepts = `a duration from ${min} to ${max}, such as ${example}`;
  return {
    accepts,
    example,
    parse(raw) {
      const ms = msOf(typeof raw === "number" ? String(raw) : raw);
      return ms !== undefined && ms >= minMs && ms <= maxMs
        ? parsed(Math.round(ms))
        : refused(`expected ${accepts}`);
    },
  };
}

function msOf(raw: unknown): number | undefined {
  const text = typeof raw === "string" ? raw.trim() : "";
  if (/^\d{1,18}$/.test(text)) {
    const number = Number(text);
    return number >= nanosecondsFrom ? number / nanosecondsFrom : number * 1000;
  }
  if (!/^(\d{1,12}(\.\d{1,9})?(h|ms|m|s|us|ns)){1,6}$/.test(text)) return undefined;
  const parts = [...text.matchAll(/([\d.]+)([a-z]+)/g)];
  return parts.reduce(
    (sum, [, amount, unit]) => sum + Number(amount) * (unitMs.get(unit ?? "") ?? 0),
    0,
  );
}

export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    // Intl throws a RangeError for an unknown time zone.
    return false;
  }
}
