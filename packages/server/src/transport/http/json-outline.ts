/**
 * Bodies without what nobody looks at. Building a value takes far longer than reading it: four
 * megabytes of brackets keep a parser busy for a second. So of a large body only that is built what
 * its schema names, down to payloads and results, which are kept as text anyway. All of it is checked
 * to be JSON.
 */
import type { TSchema } from "@sinclair/typebox";
import { afterName, builtCharsMax, endOfString, endOfValue, skipSpace } from "../json-scan.ts";

export type Shape =
  | { readonly kind: "object"; readonly members: ReadonlyMap<string, Shape> }
  | { readonly kind: "array"; readonly items: Shape }
  | { readonly kind: "scalar" }
  /** Only what kind of value it is counts. */
  | { readonly kind: "text" }
  /** Nothing is known about it, so it is built. */
  | { readonly kind: "whole" };

/** Marks a part of a schema whose value is kept as text. */
export const keptAsText = { $comment: "kept as text" } as const;

/** More than any batch may have; what follows is not worth building. */
const itemsMax = 100_001;

const scalar: Shape = { kind: "scalar" };
const whole: Shape = { kind: "whole" };

export function shapeOf(schema: TSchema): Shape {
  if (schema["$comment"] === keptAsText.$comment) return { kind: "text" };
  const { anyOf, type, properties, items } = schema;
  if (Array.isArray(anyOf)) {
    return anyOf.map(shapeOf).find(({ kind }) => kind !== "scalar") ?? scalar;
  }
  if (type === "array" && items !== undefined && !Array.isArray(items)) {
    return { kind: "array", items: shapeOf(items) };
  }
  if (type === "object" && Object.keys(properties ?? {}).length > 0) {
    const members = Object.entries<TSchema>(properties);
    return { kind: "object", members: new Map(members.map(([name, of]) => [name, shapeOf(of)])) };
  }
  return ["string", "integer", "number", "boolean", "null"].includes(type) ? scalar : whole;
}

/** The value of a body; undefined when there is none, or it is not JSON. */
export function readBody(text: string, shape: Shape = whole): unknown {
  if (text === "") return undefined;
  try {
    return text.length <= builtCharsMax ? JSON.parse(text) : new OutlineReader(text).read(shape);
  } catch {
    // Not JSON: the schema refuses it, or the route does without a body.
    return undefined;
  }
}

/** Throws a SyntaxError for what is not JSON, as JSON.parse does. */
class OutlineReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  read(shape: Shape): unknown {
    this.#skipSpace();
    const value = this.#value(shape);
    this.#skipSpace();
    if (this.#at !== this.#text.length) throw new SyntaxError("more than one value");
    return value;
  }

  #value(shape: Shape): unknown {
    const first = this.#text[this.#at];
    if (first === "{" && shape.kind === "object") return this.#object(shape.members);
    if (first === "[" && shape.kind === "array") return this.#array(shape.items);
    const start = this.#at;
    this.#skipValue();
    const isContainer = first === "{" || first === "[";
    if (shape.kind === "whole" || (!isContainer && shape.kind !== "text")) {
      return JSON.parse(this.#text.slice(start, this.#at));
    }
    return standIn(first);
  }

  #object(members: ReadonlyMap<string, Shape>): Record<string, unknown> {
    const found: Record<string, unknown> = {};
    this.#each("}", () => {
      const name = this.#name();
      const shape = members.get(name);
      if (shape === undefined) this.#skipValue();
      else found[name] = this.#value(shape);
    });
    return found;
  }

  #array(items: Shape): unknown[] {
    const found: unknown[] = [];
    this.#each("]", () => {
      if (found.length < itemsMax) found.push(this.#value(items));
      else this.#skipValue();
    });
    return found;
  }

  /** Reads what is between the brackets, with the commas. */
  #each(closing: string, readOne: () => void): void {
    this.#at += 1;
    this.#skipSpace();
    if (this.#text[this.#at] === closing) {
      this.#at += 1;
      return;
    }
    for (;;) {
      readOne();
      this.#skipSpace();
      const next = this.#text[this.#at];
      if (next !== "," && next !== closing) throw new SyntaxError("neither a comma nor the end");
      this.#at += 1;
      if (next === closing) return;
      this.#skipSpace();
    }
  }

  /** Reads a name, and moves to where its value begins. */
  #name(): string {
    const text = this.#text;
    const start = this.#at + 1;
    const end = endOfString(text, this.#at);
    this.#at = end < 0 ? -1 : afterName(text, end);
    if (this.#at < 0) throw new SyntaxError("no member");
    const raw = text.slice(start, end - 1);
    return raw.includes("\\") ? (JSON.parse(`"${raw}"`) as string) : raw;
  }

  #skipValue(): void {
    this.#at = endOfValue(this.#text, this.#at);
    if (this.#at < 0) throw new SyntaxError("no value");
  }

  #skipSpace(): void {
    this.#at = skipSpace(this.#text, this.#at);
  }
}

/** A value of the same kind, as far as schemas and null checks can tell. */
function standIn(first: string | undefined): unknown {
  switch (first) {
    case "{":
      return {};
    case "[":
      return [];
    case '"':
      return "";
    case "n":
      return null;
    case "t":
    case "f":
      return true;
    default:
      return 0;
  }
}
