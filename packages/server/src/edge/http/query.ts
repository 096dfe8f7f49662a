/**
 * Query parameters: the valid values of each, for checking requests and for the OpenAPI document. An unknown
 * parameter is refused, because ignoring a misspelled filter would return more than intended.
 */
import { closestName } from "../../core/closest-name.ts";
import { type Refusal, refusal } from "../operation.ts";
import type { JsonSchema } from "./contract/contract-schema.ts";

export interface QueryField {
  readonly about: string;
  readonly schema: JsonSchema;
  /** What a value that does not fit should have been. */
  readonly mustBe?: { readonly pattern: RegExp; readonly what: string };
}

export type QueryFields = Readonly<Record<string, QueryField>>;

/** A parameter of every route for administrators. */
export const tenantField: QueryField = {
  about: "The tenant to act in, for operators (default: the tenant of the token).",
  schema: { type: "string" },
};

export function problemOfQuery(
  fields: QueryFields,
  query: Readonly<Record<string, unknown>>,
): Refusal | undefined {
  for (const [name, value] of Object.entries(query)) {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (field === undefined) return refusal("invalid_argument", unknownParameter(name, fields));
    if (typeof value !== "string") {
      return refusal("invalid_argument", `query parameter ${name} is given more than once`);
    }
    if (field.mustBe?.pattern.test(value) === false) {
      const got = JSON.stringify(shortened(value));
      return refusal("invalid_argument", `${name} must be ${field.mustBe.what}, got ${got}`);
    }
  }
  return undefined;
}

const shownCharsMax = 40;

function shortened(text: string): string {
  return text.length <= shownCharsMax ? text : `${text.slice(0, shownCharsMax)}…`;
}

function unknownParameter(name: string, fields: QueryFields): string {
  const names = Object.keys(fields);
  const meant = closestName(shortened(name), names);
  const known = names.length === 0 ? "this route has none" : `known: ${names.join(", ")}`;
  const hint = meant === undefined ? known : `did you mean "${meant}"?`;
  return `unknown query parameter ${JSON.stringify(shortened(name))}; ${hint}`;
}
