/**
 * The values of the HTTP API, each written once: type, bounds and meaning. Body readers, bounds checks, reply writers
 * and stored rows of the server, the OpenAPI document, and the types of all clients are derived from shapes.
 *
 * A shape is plain data, and its first argument says what the value means. The words:
 *
 * | word | meaning |
 * |---|---|
 * | `min` `max` `pattern` `oneOf` `isLine` `isUnique` | bounds of a request: checked in `operation.run`, and in the document |
 * | `rule` | the bounds in words, where `1 to 9` does not say it: `invalid 'name' (rule)` |
 * | `refusal` | the whole text of the refusal, where it has another form |
 * | `code` | the error code of the refusal, where it is not that of the endpoint |
 * | `none` | stands for a missing value: requests may omit it, the server always has it, answers leave it out |
 * | `isOptional` | may be missing, and is undefined in the server then |
 * | `isRequired` | a body without it cannot be read (`invalid body`) |
 * | `isFilled` | required, and a body with an empty one (or a number below 1) cannot be read either |
 * | `as` | the name in the server, where that is another one; `createdAt` and `until` are `createdMs` and `untilMs` anyway |
 * | `name` | the name of the schema in the document and of the type in the client; answers refer to it |
 *
 * In a request, `null` is the same as a missing value, and so is an empty text in the query or of a field that has a
 * `none`. A request field with
 * none of these words must be there and within its bounds; the refusal is that of its bounds.
 */
import type { ErrorCode } from "../errors.ts";

export interface Words<None> {
  readonly as?: string;
  readonly name?: string;
  readonly none?: None;
  readonly isRequired?: true;
  readonly isFilled?: true;
  readonly isOptional?: true;
  readonly rule?: string;
  readonly refusal?: string;
  readonly code?: ErrorCode;
  /** The least number, or the least length of a text or list. */
  readonly min?: number;
  readonly max?: number;
}

interface TextWords extends Words<string> {
  readonly pattern?: RegExp;
  readonly oneOf?: readonly string[];
  /** Without control characters. */
  readonly isLine?: true;
  readonly format?: "uuid";
}

interface ListWords extends Words<readonly []> {
  readonly isUnique?: true;
}

export interface ObjectWords extends Words<never> {
  /** Unknown fields are refused from lenient callers too. */
  readonly isClosed?: boolean;
}

export interface Described<Kind extends string> {
  readonly kind: Kind;
  readonly about: string;
}

export type Text = Described<"text"> & TextWords;
/** An integer. */
export type Whole = Described<"whole"> & Words<number>;
export type Decimal = Described<"decimal"> & Words<number>;
export type Flag = Described<"flag"> & Words<boolean>;
/** One value and no other. */
export type Only = Described<"only"> & Words<boolean> & { readonly value: string | boolean };
/** RFC 3339 on the wire, milliseconds in the server. */
export type Instant = Described<"instant"> & Words<number>;
/** Any JSON value; JSON text in the server, as it was written. */
export type Raw = Described<"raw"> & Words<string> & { readonly isObject?: true };
export type List = Described<"list"> & ListWords & { readonly item: Shape };
/** An object whose names are data. */
export type MapShape = Described<"map"> & Words<never> & { readonly item: Shape };
/** One of several shapes. The server writes such a value as it has it: without `as`, `none` and instants. */
export type Either = Described<"either"> & Words<never> & { readonly of: readonly Shape[] };
export type Fields = Readonly<Record<string, Shape>>;
export interface ObjectShape extends Described<"object">, ObjectWords {
  readonly fields: Fields;
}
export type Shape =
  | Text
  | Whole
  | Decimal
  | Flag
  | Only
  | Instant
  | Raw
  | List
  | MapShape
  | Either
  | ObjectShape;

export function text<const W extends TextWords = object>(
  about = "",
  words = {} as W,
): Described<"text"> & NoInfer<W> {
  return { kind: "text", about, ...words };
}

export function whole<const W extends Words<number> = object>(
  about = "",
  words = {} as W,
): Described<"whole"> & NoInfer<W> {
  return { kind: "whole", about, ...words };
}

/** A number in an answer, never negative. */
export function count<const W extends Words<number> = object>(
  about = "",
  words = {} as W,
): Described<"whole"> & { readonly min: number } & NoInfer<W> {
  return whole(about, { min: 0, ...words });
}

export function decimal<const W extends Words<number> = object>(
  about = "",
  words = {} as W,
): Described<"decimal"> & NoInfer<W> {
  return { kind: "decimal", about, ...words };
}

export function flag<const W extends Words<boolean> = object>(
  about = "",
  words = {} as W,
): Described<"flag"> & NoInfer<W> {
  return { kind: "flag", about, ...words };
}

export function only<const V extends string | boolean, const W extends Words<boolean> = object>(
  value: V,
  about = "",
  words = {} as W,
): Described<"only"> & { readonly value: V } & NoInfer<W> {
  return { kind: "only", value, about, ...words };
}

export function instant<const W extends Words<number> = object>(
  about = "",
  words = {} as W,
): Described<"instant"> & NoInfer<W> {
  return { kind: "instant", about, ...words };
}

export function raw<const W extends Words<string> & { readonly isObject?: true } = object>(
  about = "",
  words = {} as W,
): Described<"raw"> & NoInfer<W> {
  return { kind: "raw", about, ...words };
}

export function list<I extends Shape, const W extends ListWords = object>(
  item: I,
  about = "",
  words = {} as W,
): Described<"list"> & { readonly item: I } & NoInfer<W> {
  return { kind: "list", item, about, ...words };
}

export function mapOf<I extends Shape, const W extends Words<never> = object>(
  item: I,
  about = "",
  words = {} as W,
): Described<"map"> & { readonly item: I } & NoInfer<W> {
  return { kind: "map", item, about, ...words };
}

export function either<const S extends readonly Shape[], const W extends Words<never> = object>(
  of: S,
  about = "",
  words = {} as W,
): Described<"either"> & { readonly of: S } & NoInfer<W> {
  return { kind: "either", of, about, ...words };
}

export function object<F extends Fields, const W extends ObjectWords = object>(
  fields: F,
  { about = "", ...words }: { readonly about?: string } & W = {} as W,
): Described<"object"> & { readonly fields: F } & Omit<NoInfer<W>, "about"> {
  return { kind: "object", fields, about, ...words };
}

/** A shape with another meaning or further words, as a field of something. */
export function like<S extends Shape, const W extends Words<unknown> = object>(
  shape: S,
  about: string,
  words = {} as W,
): Omit<S, keyof W> & W {
  return { ...shape, ...words, about };
}

export type Flat<T> = { [K in keyof T]: T[K] };

interface Plain {
  readonly text: string;
  readonly whole: number;
  readonly decimal: number;
  readonly flag: boolean;
}

type MayMiss = { readonly none: unknown } | { readonly isOptional: true };
type There<F> = { [K in keyof F]: F[K] extends MayMiss ? never : K }[keyof F];

/** As it is in JSON. */
export type WireOf<S> = S extends { readonly oneOf: readonly (infer V)[] }
  ? V
  : S extends { readonly kind: infer K extends keyof Plain }
    ? Plain[K]
    : S extends { readonly kind: "instant" }
      ? string
      : S extends { readonly kind: "raw" }
        ? unknown
        : S extends { readonly kind: "only"; readonly value: infer V }
          ? V
          : S extends { readonly kind: "list"; readonly item: infer I }
            ? readonly WireOf<I>[]
            : S extends { readonly kind: "map"; readonly item: infer I }
              ? Readonly<Record<string, WireOf<I>>>
              : S extends { readonly kind: "either"; readonly of: readonly (infer I)[] }
                ? WireOf<I>
                : S extends { readonly fields: infer F }
                  ? WireFields<F>
                  : never;

export type WireFields<F> = Flat<
  { readonly [K in There<F>]: WireOf<F[K]> } & {
    readonly [K in Exclude<keyof F, There<F>>]?: WireOf<F[K]> | undefined;
  }
>;

/** As it is in the server. */
export type KeptOf<S> = S extends { readonly kind: "instant" }
  ? number
  : S extends { readonly kind: "raw" }
    ? string
    : S extends { readonly kind: "list"; readonly item: infer I }
      ? readonly KeptOf<I>[]
      : S extends { readonly kind: "map"; readonly item: infer I }
        ? Readonly<Record<string, KeptOf<I>>>
        : S extends { readonly fields: infer F }
          ? KeptFields<F>
          : S extends { readonly kind: "text" | "only"; readonly none: infer N }
            ? WireOf<S> | N
            : WireOf<S>;

export type KeptFields<F> = Flat<
  {
    readonly [K in keyof F as F[K] extends { readonly isOptional: true }
      ? never
      : KeptName<K, F[K]>]: KeptOf<F[K]>;
  } & {
    readonly [K in keyof F as F[K] extends { readonly isOptional: true }
      ? KeptName<K, F[K]>
      : never]?: KeptOf<F[K]> | undefined;
  }
>;

type KeptName<K, S> = S extends { readonly as: infer A extends string }
  ? A
  : S extends { readonly kind: "instant" }
    ? K extends `${infer Stem}At`
      ? `${Stem}Ms`
      : `${K & string}Ms`
    : K;

/** The name of a field in the server. */
export function keptName(name: string, { as, kind }: Shape): string {
  return as ?? (kind === "instant" ? `${name.replace(/At$/, "")}Ms` : name);
}
