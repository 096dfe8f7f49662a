/**
 * A record as a row: the values of its fields, in the order in which they are named. The order is the stored format:
 * a new field goes to the end, and a row that was written before has the `none` of that field.
 */
import {
  type Fields,
  type KeptFields,
  keptName,
  type ObjectShape,
  type Shape,
} from "@codeq/protocol/api";

export interface RowOf<Values> {
  encode(values: Values): string;
  /** Undefined for what is no record. */
  decode(text: string): Values | undefined;
}

export function rowOf<F extends Fields>(fields: F): RowOf<KeptFields<F>> {
  const columns = Object.entries(fields).map(([field, shape]) => ({
    name: keptName(field, shape),
    shape,
  }));
  return {
    encode: (values) => {
      const all = values as Readonly<Record<string, unknown>>;
      return JSON.stringify(columns.map(({ name }) => all[name]));
    },
    decode: (text) => {
      const row = parseRecord(text);
      if (!Array.isArray(row) || row.length > columns.length) return undefined;
      if (columns.slice(row.length).some(({ shape }) => shape.none === undefined)) return undefined;
      const values = columns.map(({ shape }, at) =>
        storedIn(shape, at < row.length ? row[at] : shape.none),
      );
      if (!columns.every(({ shape }, at) => fits(shape, values[at]))) return undefined;
      return Object.fromEntries(columns.map(({ name }, at) => [name, values[at]])) as KeptFields<F>;
    },
  };
}

/** Some fields of a shape, in this order. */
export function fieldsOf<S extends ObjectShape, const N extends readonly (keyof S["fields"])[]>(
  { fields }: S,
  ...names: N
): Pick<S["fields"], N[number]> {
  const found = names.map((name) => [name, fields[String(name)]]);
  return Object.fromEntries(found) as Pick<S["fields"], N[number]>;
}

/** JSON has no undefined: a missing value was stored as null. */
function storedIn({ isOptional }: Shape, value: unknown): unknown {
  return isOptional === true && value === null ? undefined : value;
}

/** Its type only: the bounds may have been others when it was stored. */
function fits(shape: Shape, value: unknown): boolean {
  if (value === undefined) return shape.isOptional === true;
  switch (shape.kind) {
    case "text":
      return typeof value === "string" && shape.oneOf?.includes(value) !== false;
    case "whole":
    case "instant":
      return Number.isSafeInteger(value);
    case "decimal":
      return typeof value === "number";
    case "flag":
      return typeof value === "boolean";
    case "only":
      return value === shape.value;
    case "raw":
      return typeof value === "string";
    case "list":
      return (
        Array.isArray(value) &&
        value.length >= (shape.min ?? 0) &&
        value.every((each) => fits(shape.item, each))
      );
    case "map":
      return isObject(value) && Object.values(value).every((each) => fits(shape.item, each));
    case "either":
      return shape.of.some((each) => fits(each, value));
    case "object":
      return (
        isObject(value) &&
        Object.entries(shape.fields).every(([field, each]) =>
          fits(each, value[keptName(field, each)]),
        )
      );
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Undefined for text that is not JSON, so that the decoder refuses the record. */
export function parseRecord(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Undefined is not a valid record.
    return undefined;
  }
}
