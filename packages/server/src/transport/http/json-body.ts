/**
 * Bodies, read once. A shape says what a body may hold; the reader goes through the text from left to
 * right, checks that all of it is JSON, builds what the shape names and passes over the rest. Payloads
 * and results are not built at all but kept as they are written: big numbers, key order and spacing
 * survive, and brackets without end cost no more than other letters.
 *
 * Assumes nothing about the text. Of members with the same name the last one counts, as for
 * JSON.parse, which agrees with the reader about everything else too.
 */
import { afterName, endOfString, endOfValue, skipSpace } from "../json-scan.ts";

/** What is read where a value does not have the shape it should have. */
export const misfit: unique symbol = Symbol("misfit");
export type Misfit = typeof misfit;

export interface Shape<T> {
  /** Reads one value. The reader has come to its end afterwards, whether it fits or not. */
  readonly read: (from: JsonReader) => T | Misfit;
}

export type BodyOf<Of> = Of extends Shape<infer T> ? T : never;

/** The value of a body; a misfit when it is not JSON or has another shape. */
export function readBody<T>(text: string, shape: Shape<T>): T | Misfit {
  const reader = new JsonReader(text);
  const value = shape.read(reader);
  return reader.isAtEnd() ? value : misfit;
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

/** A place in a text. Where there is no JSON it stops for good. */
export class JsonReader {
  readonly #text: string;
  #at: number;

  constructor(text: string) {
    this.#text = text;
    this.#at = skipSpace(text, 0);
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
function optional<T>(shape: Shape<T>): Shape<T | undefined> {
  return {
    read: (from) => {
      if (!from.isAtNull()) return shape.read(from);
      from.skip();
      return undefined;
    },
  };
}

const anyText: Shape<string> = { read: (from) => from.string() };

export const requiredText = { ...anyText, isRequired: true } as const;

export const nonEmptyText = {
  isRequired: true,
  read: (from: JsonReader): string | Misfit => from.string() || misfit,
} as const;

const wholeNumber: Shape<number> = {
  read: (from) => {
    const value = from.number();
    return Number.isInteger(value) ? value : misfit;
  },
};

export const positiveInteger = {
  isRequired: true,
  read: (from: JsonReader): number | Misfit => {
    const value = wholeNumber.read(from);
    return value !== misfit && value >= 1 ? value : misfit;
  },
} as const;

export const text: Shape<string | undefined> = optional(anyText);
export const integer: Shape<number | undefined> = optional(wholeNumber);
export const flag: Shape<boolean | undefined> = optional({ read: (from) => from.boolean() });

/** Any value, null too, as it is written. */
export const rawValue: Shape<string | undefined> = { read: (from) => from.raw() };

/** An object, as it is written. */
export const rawObject: Shape<string | undefined> = optional({
  read: (from) => (from.isAtObject() ? from.raw() : from.skip()),
});

function arrayOf<T>(item: Shape<T>): Shape<T[]> {
  const read = (from: JsonReader): T[] | Misfit => {
    if (!from.isAtArray()) return from.skip();
    const found: T[] = [];
    let fits = true;
    for (let more = from.openArray(); more; more = from.nextElement()) {
      if (!fits || found.length >= itemsMax) {
        from.skip();
        continue;
      }
      const value = item.read(from);
      if (value === misfit) fits = false;
      else found.push(value);
    }
    return fits ? found : misfit;
  };
  return { read };
}

export function list<T>(item: Shape<T>): Shape<T[] | undefined> {
  return optional(arrayOf(item));
}

export function nonEmptyList<T>(item: Shape<T>): Shape<T[]> & { readonly isRequired: true } {
  const items = arrayOf(item);
  return {
    isRequired: true,
    read: (from) => {
      const found = items.read(from);
      return found !== misfit && found.length > 0 ? found : misfit;
    },
  };
}

type Fields = Readonly<Record<string, Shape<unknown> & { readonly isRequired?: true }>>;
type RequiredOf<F extends Fields> = {
  [Name in keyof F]: F[Name] extends { readonly isRequired: true } ? Name : never;
}[keyof F];
type ObjectOf<F extends Fields> = {
  readonly [Name in RequiredOf<F>]: BodyOf<F[Name]>;
} & { readonly [Name in Exclude<keyof F, RequiredOf<F>>]?: BodyOf<F[Name]> };

export interface ObjectShape<T> extends Shape<T> {
  readonly names: readonly string[];
}

/** Members that are not named are passed over, or refused when the shape is closed. */
export function object<F extends Fields>(
  fields: F,
  { isClosed = false }: { readonly isClosed?: boolean } = {},
): ObjectShape<ObjectOf<F>> {
  const members: Members = new Map(
    Object.entries(fields).map(([name, shape]) => [name, { name, shape }]),
  );
  const names = [...members.keys()];
  const required = names.filter((name) => fields[name]?.isRequired === true);
  const read = (from: JsonReader): ObjectOf<F> | Misfit => {
    const found: Record<string, unknown> = {};
    const fits = readMembers(from, found, { members, isClosed });
    return fits && hasAll(found, required) ? (found as ObjectOf<F>) : misfit;
  };
  return { read, names };
}

/** With its name, which as the name of a property is faster than a part of the text. */
type Members = ReadonlyMap<string, { readonly name: string; readonly shape: Shape<unknown> }>;

/** Whether this is an object, and all that should fit does. */
function readMembers(
  from: JsonReader,
  found: Record<string, unknown>,
  { members, isClosed }: { readonly members: Members; readonly isClosed: boolean },
): boolean {
  if (!from.isAtObject()) return from.skip() !== misfit;
  // A later member of the same name makes up for one that does not fit.
  let misfits: Set<string> | undefined;
  for (let more = from.openObject(); more; more = from.nextMember()) {
    const name = from.name();
    const member = members.get(name) ?? members.get(withoutEscapes(name));
    const value = member === undefined ? from.skip() : member.shape.read(from);
    if (member !== undefined && value !== misfit) {
      found[member.name] = value;
      misfits?.delete(member.name);
    } else if (member !== undefined || isClosed) {
      misfits ??= new Set();
      misfits.add(member?.name ?? "");
    }
  }
  return misfits === undefined || misfits.size === 0;
}

/** The text that is written so between quotes. */
function withoutEscapes(name: string): string {
  return name.includes("\\") ? (JSON.parse(`"${name}"`) as string) : name;
}

function hasAll(found: Readonly<Record<string, unknown>>, required: readonly string[]): boolean {
  for (const name of required) if (found[name] === undefined) return false;
  return true;
}
