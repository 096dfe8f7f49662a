/** Refuses values beyond the bounds that the API gives them. Their types were checked when they were read. */
import {
  type Endpoint,
  type Fields,
  invalidArgument,
  keptName,
  type OutOfBounds,
  type Shape,
} from "@codeq/protocol/api";
import { type Refusal, refusal } from "./operation.ts";

type Values = Readonly<Record<string, unknown>>;
type Check = (input: Values) => Refusal | undefined;
/** The rule that a value breaks. */
type Broken = (value: unknown) => string | undefined;

/** Checks parameters, query and body in this order, and the fields of each in theirs. */
export function boundsOf({
  params = {},
  query = {},
  body,
  outOfBounds = invalidArgument,
}: Endpoint): Check {
  const checks = [
    ...checksOf(params, outOfBounds),
    ...checksOf(query, invalidArgument),
    ...checksOf(body?.fields ?? {}, outOfBounds),
  ];
  return (input) => {
    for (const check of checks) {
      const problem = check(input);
      if (problem !== undefined) return problem;
    }
    return undefined;
  };
}

function checksOf(fields: Fields, { code, say, namesField }: OutOfBounds): Check[] {
  return Object.entries(fields).map(([field, shape]) => {
    const kept = keptName(field, shape);
    const broken = brokenRule(shape);
    return (input) => {
      const rule = broken(input[kept]);
      if (rule === undefined) return undefined;
      const refused = refusal(shape.code ?? code, shape.refusal ?? say(field, rule));
      return namesField === true ? { ...refused, details: { field } } : refused;
    };
  });
}

function brokenRule(shape: Shape): Broken {
  const rule = ruleOf(shape);
  const inside = brokenInside(shape, rule);
  return (value) => {
    if (value === undefined) return shape.isOptional === true ? undefined : rule;
    return value === shape.none ? undefined : inside(value);
  };
}

/** The check of a value that is present. */
function brokenInside(shape: Shape, rule: string): Broken {
  switch (shape.kind) {
    case "text": {
      const isFine = textCheck(shape);
      return (value) => (isFine(String(value)) ? undefined : rule);
    }
    case "whole":
      return (value) =>
        Number.isInteger(value) && isWithin(shape, Number(value)) ? undefined : rule;
    case "decimal":
      return (value) => (isWithin(shape, Number(value)) ? undefined : rule);
    case "instant":
      return (value) => (Number.isNaN(value) ? rule : undefined);
    case "list": {
      const item = brokenRule(shape.item);
      const wrong = (items: readonly unknown[]): string | undefined => {
        if (!isWithin(shape, items.length)) return rule;
        const inside = items.map(item).find((each) => each !== undefined);
        if (inside !== undefined) return shape.rule ?? inside;
        return shape.isUnique && new Set(items).size < items.length ? "unique" : undefined;
      };
      return (value) => (Array.isArray(value) ? wrong(value) : rule);
    }
    case "object": {
      const fields = Object.entries(shape.fields).map(([field, each]) => ({
        field,
        kept: keptName(field, each),
        broken: brokenRule(each),
      }));
      return (value) => {
        const values = value as Values;
        for (const { field, kept, broken } of fields) {
          const inside = broken(values[kept]);
          if (inside !== undefined) return `an object with ${field} ${inside}`;
        }
        return undefined;
      };
    }
    default:
      return () => undefined;
  }
}

interface Range {
  readonly min?: number;
  readonly max?: number;
}

function isWithin({ min = -Infinity, max = Infinity }: Range, value: number): boolean {
  return value >= min && value <= max;
}

function textCheck(shape: Shape & { readonly kind: "text" }): (value: string) => boolean {
  const { pattern, oneOf, isLine } = shape;
  return (value) =>
    isWithin(shape, value.length) &&
    pattern?.test(value) !== false &&
    oneOf?.includes(value) !== false &&
    !(isLine === true && (!value.isWellFormed() || /\p{Cc}/u.test(value)));
}

function ruleOf(shape: Shape): string {
  if (shape.rule !== undefined) return shape.rule;
  if (shape.kind === "instant") return "use RFC3339";
  if (shape.kind === "text" && shape.oneOf !== undefined) return `use ${inWords(shape.oneOf)}`;
  const { min, max } = shape;
  const range = max === undefined ? `${min ?? 0} or more` : upTo(min, max);
  if (shape.kind !== "text") return range;
  return `${range} characters${shape.isLine === true ? " on one line" : ""}`;
}

function upTo(min: number | undefined, max: number): string {
  return min === undefined ? `at most ${max}` : `${min} to ${max}`;
}

function inWords(values: readonly string[]): string {
  const last = values.at(-1) ?? "";
  return values.length < 2 ? last : `${values.slice(0, -1).join(", ")} or ${last}`;
}
