/** The types of answers for users of the client library, with comments, made from the shapes of the API. */
import { client, errorCode, type Shape } from "../packages/protocol/src/api/index.ts";

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
  const types = exported.map(
    ([name, each]) => `/** ${each.about} */\nexport interface ${name} ${literalOf(each, "")}\n`,
  );
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
    case "object":
      return literalOf(shape, indent);
  }
}

function literalOf({ fields }: Shape & { readonly kind: "object" }, indent: string): string {
  const inner = `${indent}  `;
  const members = Object.entries(fields).map(([field, shape]) => {
    const comment =
      shape.about === "" || nameOf(shape) !== undefined ? "" : `${inner}/** ${shape.about} */\n`;
    const mayMiss = shape.none !== undefined || shape.isOptional === true;
    const type = typeOf(shape, inner);
    return `${comment}${inner}readonly ${field}${mayMiss ? `?: ${type} | undefined` : `: ${type}`};\n`;
  });
  return `{\n${members.join("")}${indent}}`;
}
