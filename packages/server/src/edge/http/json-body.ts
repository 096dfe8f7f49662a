/**
 * Bodies, read once. Readers of values go through the text from left to right, check that all of it is JSON, build
 * the fields that the contract names and refuse other fields, or skip them for lenient callers. Payloads and results are not built at all but kept as they are written:
 * big numbers, key order and spacing survive, and brackets without end cost no more than other letters.
 *
 * Assumes nothing about the text. Of members with the same name the last one counts, as for
 * JSON.parse, which agrees with the reader about everything else too.
 */
import { closestName } from "../../core/closest-name.ts";
import { afterName, endOfString, endOfValue, skipSpace } from "../json-scan.ts";

/** What is read where a value does not have the shape it should have; the reader knows why. */
const misfit: unique symbol = Symbol("misfit");
type Misfit = typeof misfit;

export interface ValueReader<T> {
  /** Reads one value. The text has been read to the end of the value afterwards, whether the value fits or not. */
  readonly read: (from: JsonReader) => T | Misfit;
  /** A body without this member is refused. */
  readonly isRequired?: true;
}

/** The value of a body, or which part of it is wrong and why. */
export type ReadBody<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly why: string };

/** For lenient callers fields that are not known are passed over. */
export function readBody<T>(text: string, reader: ValueReader<T>, isLenient = false): ReadBody<T> {
  const from = new JsonReader(text, isLenient);
  const value = reader.read(from);
  if (!from.isAtEnd()) return { ok: false, why: whyNotJson(text) };
  return value === misfit ? { ok: false, why: from.why() } : { ok: true, value };
}

/** In longer texts, the position of a mistake is not searched. */
const parsedCharsMax = 64 * 1024;

function whyNotJson(text: string): string {
  if (text.trim() === "") return "it is empty; send a JSON object, such as {}";
  if (text.length > parsedCharsMax) return "it is not JSON";
  try {
    JSON.parse(text);
  } catch (error) {
    const [, place] = / (at position \d+|Unexpected end)/.exec(String(error)) ?? [];
    if (place === "Unexpected end") return "it is not JSON: it ends too early";
    if (place !== undefined) return `it is not JSON: unexpected text ${place}`;
  }
  return "it is not JSON";
}

/** What does not fit; `say` gets the path of the value. */
interface Mistake {
  readonly where: string;
  readonly say: (where: string) => string;
}

function within(name: string, { where, say }: Mistake): Mistake {
  return { where: joined(name, where), say };
}

function joined(outer: string, inner: string): string {
  return inner === "" || outer === "" || inner.startsWith("[")
    ? outer + inner
    : `${outer}.${inner}`;
}

/** How much of a value or a name a refusal shows. */
const shownCharsMax = 40;

function shortened(text: string): string {
  return text.length <= shownCharsMax ? text : `${text.slice(0, shownCharsMax)}…`;
}

/** More than any batch may have; what follows is not worth building. */
const itemsMax = 100_001;
/** Strings of a longer text are copied, for a part of a string keeps the whole of it in memory. */
export const sharedCharsMax = 1024;

const quote = 34;
const comma = 44;
const openBracket = 91;
const closeBracket = 93;
const letterN = 110;
const openBrace = 123;
const closeBrace = 125;

/** A position in a text. At the first text that is not JSON it stops permanently. */
export class JsonReader {
  readonly isLenient: boolean;
  readonly #text: string;
  #at: number;
  #mistake: Mistake | undefined;

  constructor(text: string, isLenient: boolean) {
    this.#text = text;
    this.#at = skipSpace(text, 0);
    this.isLenient = isLenient;
  }

  get at(): number {
    return this.#at;
  }

  /** Says what the value from there to here should have been. */
  refuse(start: number, what: string): Misfit {
    const got = this.#at < 0 ? "" : shortened(this.#text.slice(start, this.#at));
    return this.blame({
      where: "",
      say: (where) => `${where === "" ? "it" : where} must be ${what}, got ${got}`,
    });
  }

  blame(mistake: Mistake): Misfit {
    this.#mistake = mistake;
    return misfit;
  }

  /** What was found last, as a part of something that has this name. */
  mistakeIn(name: string): Mistake {
    return within(name, this.#mistake ?? { where: "", say: (where) => `${where} is wrong` });
  }

  why(): string {
    const { where, say } = this.mistakeIn("");
    return say(where);
  }

  /** Whether one value was read, and there is nothing behind it. */
  isAtEnd(): boolean {
    return this.#at >= 0 && skipSpace(this.#text, this.#at) === this.#text.length;
  }

  isAtNull(): boolean {
    return this.#code() === letterN;
  }

  isAtArray(): boolean {
    return this.#code() === openBracket;
  }

  isAtObject(): boolean {
    return this.#code() === openBrace;
  }

  /** Passes over the value, which is nothing that was asked for. */
  skip(): Misfit {
    if (this.#at >= 0) this.#at = endOfValue(this.#text, this.#at);
    return misfit;
  }

  /** The value as it is written. */
  raw(): string {
    const start = this.#at;
    this.skip();
    return this.#at < 0 ? "" : this.#part(start, this.#at);
  }

  string(): string | Misfit {
    if (this.#code() !== quote) return this.skip();
    const start = this.#at;
    this.skip();
    if (this.#at < 0) return misfit;
    const isShared = this.#text.length <= sharedCharsMax;
    const text = this.#text.slice(start + 1, this.#at - 1);
    if (isShared && !text.includes("\\")) return text;
    return JSON.parse(this.#text.slice(start, this.#at)) as string;
  }

  number(): number | Misfit {
    const code = this.#code();
    if (code !== 45 && !(code >= 48 && code <= 57)) return this.skip();
    const start = this.#at;
    this.skip();
    return this.#at < 0 ? misfit : Number(this.#text.slice(start, this.#at));
  }

  boolean(): boolean | Misfit {
    const code = this.#code();
    this.skip();
    return code === 116 ? true : code === 102 ? false : misfit;
  }

  /** Moves to the first element, and says whether there is one. */
  openArray(): boolean {
    return this.#open(closeBracket);
  }

  /** Moves to the next element, and says whether there is one. */
  nextElement(): boolean {
    return this.#goesOn(closeBracket);
  }

  /** Moves to the first name, and says whether there is one. */
  openObject(): boolean {
    return this.#open(closeBrace);
  }

  /** Moves to the next name, and says whether there is one. */
  nextMember(): boolean {
    return this.#goesOn(closeBrace);
  }

  /** Reads a name as it is written, and moves to where its value begins. */
  name(): string {
    const start = this.#at;
    const end = endOfString(this.#text, start);
    this.#at = end < 0 ? -1 : afterName(this.#text, end);
    return this.#at < 0 ? "" : this.#text.slice(start + 1, end - 1);
  }

  /** Whether anything is between the brackets. */
  #open(closing: number): boolean {
    this.#at = skipSpace(this.#text, this.#at + 1);
    if (this.#code() !== closing) return true;
    this.#at += 1;
    return false;
  }

  /** Whether another one follows. */
  #goesOn(closing: number): boolean {
    if (this.#at < 0) return false;
    const at = skipSpace(this.#text, this.#at);
    const code = this.#text.charCodeAt(at);
    if (code === comma) {
      this.#at = skipSpace(this.#text, at + 1);
      return true;
    }
    this.#at = code === closing ? at + 1 : -1;
    return false;
  }

  #code(): number {
    return this.#text.charCodeAt(this.#at);
  }

  #part(start: number, end: number): string {
    const part = this.#text.slice(start, end);
    const isMostOfIt = (end - start) * 2 >= this.#text.length;
    return isMostOfIt || this.#text.length <= sharedCharsMax ? part : copyOf(part);
  }
}

/** A string of its own. What was read as UTF-8 can be written as UTF-8. */
export function copyOf(text: string): string {
  return Buffer.from(text).toString();
}

/** A member that may be missing, or null, which is the same. */
export function optional<T>(reader: ValueReader<T>): ValueReader<T | undefined> {
  return {
    read: (from) => {
      if (!from.isAtNull()) return reader.read(from);
      from.skip();
      return undefined;
    },
  };
}

export const text: ValueReader<string> = {
  read: (from) => {
    const start = from.at;
    const value = from.string();
    return value === misfit ? from.refuse(start, "a string") : value;
  },
};

export const nonEmptyText: ValueReader<string> = {
  read: (from) => {
    const start = from.at;
    return text.read(from) || from.refuse(start, "a string that is not empty");
  },
};

export const decimal: ValueReader<number> = {
  read: (from) => {
    const start = from.at;
    const value = from.number();
    return value === misfit ? from.refuse(start, "a number") : value;
  },
};

export const integer: ValueReader<number> = {
  read: (from) => {
    const start = from.at;
    const value = decimal.read(from);
    if (value === misfit) return misfit;
    return Number.isInteger(value) ? value : from.refuse(start, "a whole number");
  },
};

export const positiveInteger: ValueReader<number> = {
  read: (from) => {
    const start = from.at;
    const value = integer.read(from);
    return value === misfit || value >= 1 ? value : from.refuse(start, "at least 1");
  },
};

export const flag: ValueReader<boolean> = {
  read: (from) => {
    const start = from.at;
    const value = from.boolean();
    return value === misfit ? from.refuse(start, "true or false") : value;
  },
};

/** Any value, null too, as it is written. */
export const rawValue: ValueReader<string> = { read: (from) => from.raw() };

/** Any value but null, as it is written. */
export const requiredValue: ValueReader<string> = {
  read: (from) => {
    if (!from.isAtNull()) return from.raw();
    const start = from.at;
    from.skip();
    return from.refuse(start, "a value other than null");
  },
};

/** An object, as it is written. */
export const rawObject: ValueReader<string> = {
  read: (from) => {
    if (from.isAtObject()) return from.raw();
    const start = from.at;
    from.skip();
    return from.refuse(start, "an object");
  },
};

export function arrayOf<T>(item: ValueReader<T>): ValueReader<T[]> {
  const read = (from: JsonReader): T[] | Misfit => {
    if (!from.isAtArray()) {
      const start = from.at;
      from.skip();
      return from.refuse(start, "an array");
    }
    const found: T[] = [];
    let mistake: Mistake | undefined;
    for (let more = from.openArray(); more; more = from.nextElement()) {
      if (mistake !== undefined || found.length >= itemsMax) {
        from.skip();
        continue;
      }
      const value = item.read(from);
      if (value === misfit) mistake = from.mistakeIn(`[${found.length}]`);
      else found.push(value);
    }
    return mistake === undefined ? found : from.blame(mistake);
  };
  return { read };
}

export function nonEmptyArrayOf<T>(item: ValueReader<T>): ValueReader<T[]> {
  const items = arrayOf(item);
  return {
    read: (from) => {
      const start = from.at;
      const found = items.read(from);
      return found === misfit || found.length > 0
        ? found
        : from.refuse(start, "an array that is not empty");
    },
  };
}

type Values = Readonly<Record<string, unknown>>;

/** Fields that are not named are refused; a closed object refuses them from lenient callers too. */
export function object(
  fields: Readonly<Record<string, ValueReader<unknown>>>,
  { isClosed }: { readonly isClosed: boolean },
): ValueReader<Values> {
  const members: Members = new Map(
    Object.entries(fields).map(([name, reader]) => [name, { name, reader }]),
  );
  const required = [...members.keys()].filter((name) => fields[name]?.isRequired === true);
  const read = (from: JsonReader): Values | Misfit => {
    const found: Record<string, unknown> = {};
    const mistake =
      readMembers(from, found, { members, isClosed: isClosed || !from.isLenient }) ??
      missingIn(found, required);
    return mistake === undefined ? found : from.blame(mistake);
  };
  return { read };
}

/** With its name, which as the name of a property is faster than a part of the text. */
type Members = ReadonlyMap<
  string,
  { readonly name: string; readonly reader: ValueReader<unknown> }
>;

/** What is wrong when this is no object, or not all that should fit does. */
function readMembers(
  from: JsonReader,
  found: Record<string, unknown>,
  { members, isClosed }: { readonly members: Members; readonly isClosed: boolean },
): Mistake | undefined {
  if (!from.isAtObject()) {
    const start = from.at;
    from.skip();
    from.refuse(start, "an object");
    return from.mistakeIn("");
  }
  let unknown: string | undefined;
  // A later member of the same name makes up for one that does not fit.
  let mistakes: Map<string, Mistake> | undefined;
  for (let more = from.openObject(); more; more = from.nextMember()) {
    const name = from.name();
    const member = members.get(name) ?? members.get(withoutEscapes(name));
    if (member === undefined) {
      unknown ??= name;
      from.skip();
      continue;
    }
    const value = member.reader.read(from);
    if (value === misfit) {
      mistakes ??= new Map();
      mistakes.set(member.name, from.mistakeIn(member.name));
    } else {
      found[member.name] = value;
      mistakes?.delete(member.name);
    }
  }
  if (isClosed && unknown !== undefined) return unknownField(unknown, members);
  return mistakes === undefined ? undefined : first(mistakes);
}

function first(mistakes: ReadonlyMap<string, Mistake>): Mistake | undefined {
  for (const each of mistakes.values()) return each;
  return undefined;
}

function unknownField(written: string, members: Members): Mistake {
  const name = withoutEscapes(written);
  const shown = JSON.stringify(shortened(name));
  const names = [...members.keys()];
  const meant = closestName(shortened(name), names);
  const hint =
    meant === undefined ? `; known fields: ${names.join(", ")}` : `; did you mean "${meant}"?`;
  return {
    where: "",
    say: (where) => `unknown field ${shown}${where === "" ? "" : ` in ${where}`}${hint}`,
  };
}

/** The text that is written so between quotes. */
function withoutEscapes(name: string): string {
  return name.includes("\\") ? (JSON.parse(`"${name}"`) as string) : name;
}

function missingIn(found: Values, required: readonly string[]): Mistake | undefined {
  for (const name of required) {
    if (found[name] === undefined) {
      return { where: "", say: (where) => `${joined(where, name)} is required` };
    }
  }
  return undefined;
}
