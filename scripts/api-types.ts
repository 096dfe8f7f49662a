/** The types of answers for users of the client library, with comments, made from the shapes of the API. */
import { client, errorCode, type Shape } from "../packages/protocol/src/api/index.ts";

type ObjectShape = Shape & { readonly kind: "object" };
type Fields = ObjectShape["fields"];

interface Base {
  readonly name: string;
  readonly fields: Fields;
}

const exported = Object.entries(client);
/** By the fields of objects, so that an object with another meaning keeps its name. */
const names: ReadonlyMap<object, string> = new Map<object, string>([
  ...exported.map(([name, { fields }]) => [fields, name] as const),
  // Later servers have further codes.
  [errorCode, "string"],
]);

function nameOf(shape: Shape): string | undefined {
  return names.get(shape.kind === "object" ? shape.fields : shape);
}

export const apiTypesPath = "packages/client/src/api-types.ts";

export function apiTypes(): string {
  const head =
    "/** Generated from packages/protocol/src/api by `npm run gen`; edit that instead. */\n";
  const types = exported.map(([name, each]) => {
    const bases = basesOf(each);
    const above = bases.map((base) => base.name).join(", ");
    const head = `export interface ${name}${above && ` extends ${above}`}`;
    return `/** ${each.about} */\n${head} ${literalOf(each, "", bases)}\n`;
  });
  return [head, ...types].join("\n");
}

function typeOf(shape: Shape, indent: string): string {
  const name = nameOf(shape);
  if (name !== undefined) return name;
  switch (shape.kind) {
    case "text":
      return shape.oneOf?.map((each) => JSON.stringify(each)).join(" | ") ?? "string";
    case "instant":
      return "string";
    case "whole":
    case "decimal":
      return "number";
    case "flag":
      return "boolean";
    case "only":
      return JSON.stringify(shape.value);
    case "raw":
      return "unknown";
    case "list": {
      const item = typeOf(shape.item, indent);
      const isUnion = !item.startsWith("{") && item.includes(" | ");
      return `readonly ${isUnion ? `(${item})` : item}[]`;
    }
    case "map":
      return `Readonly<Record<string, ${typeOf(shape.item, indent)}>>`;
    case "either":
      return shape.of.map((each) => typeOf(each, indent)).join(" | ");
    case "object": {
      const bases = basesOf(shape);
      const own = literalOf(shape, indent, bases);
      const parts = own === noMembers(indent) ? [] : [own];
      return [...bases.map(({ name }) => name), ...parts].join(" & ");
    }
  }
}

/** Exported types whose fields are all in the object and in no other of these types; the largest first. */
function basesOf(shape: ObjectShape): readonly Base[] {
  const isPart = (fields: Fields) =>
    Object.entries(fields).every(([field, each]) => shape.fields[field] === each);
  const sizeOf = (fields: Fields) => Object.keys(fields).length;
  const parts = exported
    .map(([name, { fields }]): Base => ({ name, fields }))
    .filter(({ fields }) => sizeOf(fields) < sizeOf(shape.fields) && isPart(fields))
    .sort((one, other) => sizeOf(other.fields) - sizeOf(one.fields));
  const bases: Base[] = [];
  for (const part of parts) {
    const isNew = (field: string) => !bases.some(({ fields }) => field in fields);
    if (Object.keys(part.fields).every(isNew)) bases.push(part);
  }
  return bases;
}

function literalOf({ fields }: ObjectShape, indent: string, bases: readonly Base[]): string {
  const inner = `${indent}  `;
  const own = Object.entries(fields).filter(
    ([field]) => !bases.some((base) => field in base.fields),
  );
  const members = own.map(([field, shape]) => {
    const comment =
      shape.about === "" || nameOf(shape) !== undefined ? "" : `${inner}/** ${shape.about} */\n`;
    const mayMiss = shape.none !== undefined || shape.isOptional === true;
    const type = typeOf(shape, inner);
    return `${comment}${inner}readonly ${field}${mayMiss ? `?: ${type} | undefined` : `: ${type}`};\n`;
  });
  return `{\n${members.join("")}${indent}}`;
}

function noMembers(indent: string): string {
  return `{\n${indent}}`;
}
