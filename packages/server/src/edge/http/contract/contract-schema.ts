/** The shapes of the API as JSON Schema, for the OpenAPI document. */
import type { Endpoint, Fields, Shape } from "@codeq/protocol/api";

type Tables = Readonly<Record<string, Readonly<Record<string, Endpoint>>>>;

/** The answers of all endpoints, and what has a name inside them, by name. */
export function answerSchemas(
  tables: Tables,
  more: readonly Shape[] = [],
): Readonly<Record<string, JsonSchema>> {
  const endpoints = Object.values(tables).flatMap((table) => Object.values(table));
  const replies = endpoints.flatMap((each) => Object.values(each.replies));
  const shapes = [...more, ...replies.flatMap(({ shape }) => shape ?? [])];
  const named = shapes.flatMap(namedIn);
  return Object.fromEntries(named.map((shape) => [shape.name, schemaOf(shape, "answer")]));
}

export function ref(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

function namedIn(shape: Shape): readonly Shape[] {
  const inside = partsOf(shape).flatMap(namedIn);
  return shape.name === undefined ? inside : [shape, ...inside];
}

function partsOf(shape: Shape): readonly Shape[] {
  if (shape.kind === "object") return Object.values(shape.fields);
  if (shape.kind === "either") return shape.of;
  return shape.kind === "list" || shape.kind === "map" ? [shape.item] : [];
}

type Side = "answer" | "body" | "query";

export function schemaOf(shape: Shape, side: Side): JsonSchema {
  const schema = { ...typeOf(shape, side), ...boundsOf(shape, side) };
  const { type } = schema;
  const isNullable = side === "body" && type !== undefined && !isRequired(shape);
  return {
    ...schema,
    ...(isNullable ? { type: [type, "null"] } : {}),
    ...(shape.about === "" || side === "query" ? {} : { description: shape.about }),
  };
}

export function isRequired({ isRequired, isFilled }: Shape): boolean {
  return isRequired === true || isFilled === true;
}

function typeOf(shape: Shape, side: Side): JsonSchema {
  switch (shape.kind) {
    case "text": {
      const { format, oneOf } = shape;
      // A body may leave a choice empty.
      const empty = side === "body" && !isRequired(shape) ? ["", null] : [];
      const values = oneOf === undefined ? {} : { enum: [...oneOf, ...empty] };
      return { type: "string", ...(format === undefined ? {} : { format }), ...values };
    }
    case "instant":
      // A body may leave it empty.
      return { type: "string", ...(side === "body" ? {} : { format: "date-time" }) };
    case "whole":
      return { type: "integer" };
    case "decimal":
      return { type: "number" };
    case "flag":
      return { type: "boolean" };
    case "only":
      return { const: shape.value };
    case "raw":
      if (shape.isObject === true) return { type: "object" };
      return isRequired(shape) ? { type: ["object", "array", "string", "number", "boolean"] } : {};
    case "list":
      return { type: "array", items: schemaInside({ ...shape.item, isRequired: true }, side) };
    case "map":
      return { type: "object", additionalProperties: schemaInside(shape.item, side) };
    case "either":
      return { oneOf: shape.of.map((each) => schemaInside(each, side)) };
    case "object":
      return { type: "object", ...fieldSchemas(shape.fields, side) };
  }
}

/** What has a name is described under that name; here it may have another meaning. */
function schemaInside(shape: Shape, side: Side): JsonSchema {
  const { name, about } = shape;
  if (name === undefined || side !== "answer") return schemaOf(shape, side);
  return about === "" ? ref(name) : { ...ref(name), description: about };
}

function fieldSchemas(fields: Fields, side: Side): JsonSchema {
  const all = Object.entries(fields);
  const properties = Object.fromEntries(
    all.map(([name, each]) => [name, schemaInside(each, side)]),
  );
  const isAlwaysThere = (each: Shape): boolean =>
    side === "body" ? isRequired(each) : each.none === undefined && each.isOptional !== true;
  const required = all.filter(([, each]) => isAlwaysThere(each)).map(([name]) => name);
  return {
    properties,
    ...(required.length === 0 ? {} : { required }),
    ...(side === "body" ? { additionalProperties: false } : {}),
  };
}

const keywords: Readonly<Record<string, readonly [string, string]>> = {
  text: ["minLength", "maxLength"],
  list: ["minItems", "maxItems"],
  whole: ["minimum", "maximum"],
  decimal: ["minimum", "maximum"],
};

/** Answers promise the range of numbers only. */
function boundsOf(shape: Shape, side: Side): JsonSchema {
  const isNumber = shape.kind === "whole" || shape.kind === "decimal";
  if (side === "answer" && !isNumber) return {};
  const [least = "", most = ""] = keywords[shape.kind] ?? [];
  const { min, max } = shape;
  const from = shape.isFilled === true ? (min ?? 1) : min;
  return {
    ...(from === undefined ? {} : { [least]: from }),
    ...(max === undefined ? {} : { [most]: max }),
    ...patternOf(shape),
  };
}

/** JSON Schema has no flags, and not every reader knows classes of Unicode: such patterns are left out. */
function patternOf(shape: Shape): JsonSchema {
  if (shape.kind !== "text" || shape.pattern === undefined || shape.oneOf !== undefined) return {};
  const { source, ignoreCase } = shape.pattern;
  if (ignoreCase || source.includes("\\p{")) return {};
  return { pattern: isRequired(shape) || shape.none === undefined ? source : `^$|${source}` };
}

/** JSON Schema 2020-12. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}
