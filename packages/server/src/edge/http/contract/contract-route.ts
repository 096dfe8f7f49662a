/**
 * Makes routes of the endpoints of the API: shapes read requests and write answers. Readers and writers are made once,
 * when the server starts.
 */
import { type Endpoint, type Fields, keptName, type Method, type Shape } from "@codeq/protocol/api";
import { parseInstant } from "../../../core/timestamps.ts";
import type { Bound } from "../../bind.ts";
import type { Operation } from "../../operation.ts";
import type { ValueReader } from "../json-body.ts";
import * as body from "../json-body.ts";
import type { JsonCodec } from "../json-codec.ts";
import type { QueryField, QueryFields } from "../query.ts";
import { redirected } from "../redirects.ts";
import {
  type AnyRoute,
  type BodyDescription,
  type HttpRequest,
  json,
  type Route,
} from "../route.ts";
import { isRequired, schemaOf } from "./contract-schema.ts";

/** A route that reads requests or writes answers itself; everything else is that of the endpoint. */
export interface ByHand<Input, Output>
  extends Partial<Pick<Route<Input, Output>, "input" | "waits">>,
    Pick<Route<Input, Output>, "reply"> {
  readonly operation: Operation<Input, Output>;
}

export function byHand<Input, Output>(made: ByHand<Input, Output>): ByHand<Input, Output> {
  return made;
}

// biome-ignore lint/suspicious/noExplicitAny: a table of operations does not look at their inputs.
type AnyByHand = ByHand<any, any>;
// biome-ignore lint/suspicious/noExplicitAny: as above.
type AnyBound<Key extends string = Endpoint["key"]> = Bound<any, any, Key>;

/** The routes of a resource, in the order of its endpoints. Each endpoint must have its operation. */
export function contractRoutes<T extends Readonly<Record<string, Endpoint>>>(
  table: T,
  operations: { readonly [Name in keyof T]: AnyBound<T[Name]["key"]> | AnyByHand },
): readonly AnyRoute[] {
  return Object.entries(table).map(([name, endpoint]) => {
    const made: AnyBound | AnyByHand = operations[name as keyof T];
    return routeOf(endpoint, "operation" in made ? made : boundReply(made));
  });
}

function boundReply(operation: AnyBound): AnyByHand {
  const { show, endpoint } = operation;
  const replies = Object.entries(endpoint.replies);
  const writers = new Map(
    replies.map(([status, { shape }]) => [Number(status), shape && writerOf(shape)]),
  );
  const first = Number(replies[0]?.[0]);
  return {
    operation,
    reply: (output, codec) => {
      const { status, value, ...more } = show?.(output) ?? { status: first, value: output };
      const write = writers.get(status);
      if (write === undefined) return { ...more, status, body: undefined };
      return { ...more, ...json(write(value, codec), status) };
    },
  };
}

function routeOf(endpoint: Endpoint, made: AnyByHand): AnyRoute {
  const { key, params = {}, query = {}, body: sent, replies, ...described } = endpoint;
  const [method, path] = key.split(" ") as [Method, string];
  return {
    ...described,
    method,
    path: `/v1/codeq${path}`,
    params: queryFields(params),
    query: queryFields(query),
    ...(sent === undefined ? {} : { body: bodyOf(sent) }),
    replies: {
      ...(endpoint.redirects === true ? redirected : {}),
      ...describedReplies(replies),
    },
    input: inputReader(params, query, sent?.fields ?? {}),
    ...made,
  };
}

function describedReplies(replies: Endpoint["replies"]): AnyRoute["replies"] {
  const all = Object.entries(replies).map(([status, { shape, ...reply }]) => [
    status,
    { ...reply, ...(shape === undefined ? {} : { schema: shape.name }) },
  ]);
  return Object.fromEntries(all);
}

type Values = Readonly<Record<string, unknown>>;

/** The input of an operation: flat, with the names of the server, and `none` for what is missing. */
function inputReader(params: Fields, query: Fields, body: Fields): AnyRoute["input"] {
  const [inPath, inQuery, inBody] = [keptFields(params), keptFields(query), keptFields(body)];
  return (request: HttpRequest) => {
    const value: Record<string, unknown> = {};
    const sent = (request.body ?? {}) as Values;
    for (const { name, kept, shape } of inPath)
      value[kept] = keptValue(shape, request.params[name]);
    for (const { name, kept, shape } of inQuery)
      value[kept] = keptValue(shape, request.query[name] ?? conditionIn(request, name));
    for (const { name, kept, shape } of inBody) value[kept] = keptValue(shape, sent[name]);
    return value;
  };
}

/** The header `If-Match` is another way to write the version that a change is meant for. */
function conditionIn({ headers }: HttpRequest, name: string): string | undefined {
  const condition = name === "ifVersion" ? headers["if-match"] : undefined;
  return typeof condition === "string" ? condition.replace(/^(?:W\/)?"(.*)"$/, "$1") : undefined;
}

/** A query has texts only, a body has numbers and flags as well. */
function keptValue(shape: Shape, value: unknown): unknown {
  const { kind, none } = shape;
  if (kind === "object" && value !== undefined) return withNones(shape.fields, value as Values);
  if (value === undefined || (value === "" && kind === "instant")) return none;
  if (value === "" && kind === "text") return none ?? value;
  if (kind === "instant") return parseInstant(String(value)) ?? Number.NaN;
  if (kind === "whole" || kind === "decimal") return Number(value);
  return kind === "flag" ? String(value) === "true" : value;
}

/** An object with the `none` of each of its fields that is missing. */
function withNones(fields: Fields, given: Values): Values {
  const value: Record<string, unknown> = { ...given };
  for (const [name, shape] of Object.entries(fields)) {
    if (value[name] !== undefined || shape.none !== undefined) {
      value[name] = keptValue(shape, given[name]);
    }
  }
  return value;
}

function keptFields(fields: Fields) {
  return Object.entries(fields).map(([name, shape]) => ({
    name,
    shape,
    kept: keptName(name, shape),
  }));
}

function queryFields(fields: Fields): QueryFields {
  const all = Object.entries(fields).map(([name, shape]): [string, QueryField] => {
    const mustBe = valuesOfQuery[shape.kind];
    const field = { about: shape.about, schema: schemaOf(shape, "query") };
    return [name, mustBe === undefined ? field : { ...field, mustBe }];
  });
  return Object.fromEntries(all);
}

const valuesOfQuery: Readonly<Record<string, QueryField["mustBe"]>> = {
  whole: { pattern: /^-?\d+$/, what: "a whole number" },
  decimal: { pattern: /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i, what: "a number" },
  flag: { pattern: /^(true|false)$/, what: "true or false" },
};

/** Reads the body of a request, and describes it. */
export function bodyOf(shape: Shape): BodyDescription {
  const required = { ...shape, isRequired: true } as const;
  return { ...readerOf(required), schema: schemaOf(required, "body") };
}

function readerOf(shape: Shape): ValueReader<unknown> {
  const reader = plainReader(shape);
  if (isRequired(shape)) return { ...reader, isRequired: true };
  // As a payload, null is a value.
  return shape.kind === "raw" && shape.isObject !== true ? reader : body.optional(reader);
}

function plainReader(shape: Shape): ValueReader<unknown> {
  const { isFilled = false } = shape;
  switch (shape.kind) {
    case "text":
    case "instant":
      return isFilled ? body.nonEmptyText : body.text;
    case "whole":
      return isFilled ? body.positiveInteger : body.integer;
    case "decimal":
      return body.decimal;
    case "flag":
      return body.flag;
    case "raw":
      if (shape.isObject === true) return body.rawObject;
      return isRequired(shape) ? body.requiredValue : body.rawValue;
    case "list": {
      const item = readerOf({ ...shape.item, isRequired: true });
      return isFilled ? body.nonEmptyArrayOf(item) : body.arrayOf(item);
    }
    case "object": {
      const fields = Object.entries(shape.fields).map(([name, each]) => [name, readerOf(each)]);
      return body.object(Object.fromEntries(fields), { isClosed: shape.isClosed === true });
    }
    default:
      throw new Error(`a body cannot have a value of the kind ${shape.kind}`);
  }
}

/** Gives a value as JSON text. */
type Write = (value: unknown, codec: JsonCodec) => string;

export function writerOf(shape: Shape): Write {
  switch (shape.kind) {
    case "instant":
      return (value, codec) => `"${codec.instant(value as number)}"`;
    case "raw":
      return (value) => value as string;
    case "list": {
      const item = writerOf(shape.item);
      return (value, codec) =>
        `[${(value as unknown[]).map((each) => item(each, codec)).join(",")}]`;
    }
    case "map": {
      const item = writerOf(shape.item);
      return (value, codec) => {
        const all = Object.entries(value as Values);
        return `{${all.map(([name, each]) => `${JSON.stringify(name)}:${item(each, codec)}`).join(",")}}`;
      };
    }
    case "object":
      return objectWriter(shape.fields);
    default:
      return (value) => JSON.stringify(value);
  }
}

function objectWriter(fields: Fields): Write {
  const members = keptFields(fields).map(({ name, kept, shape }) => ({
    name: `"${name}":`,
    kept,
    none: shape.none,
    write: writerOf(shape),
  }));
  return (value, codec) => {
    let text = "";
    for (const { name, kept, none, write } of members) {
      const member = (value as Values)[kept];
      if (member === undefined || member === none) continue;
      // Lists that were stored are not the same object.
      if (Array.isArray(none) && (member as unknown[]).length === 0) continue;
      text += `${text === "" ? "{" : ","}${name}${write(member, codec)}`;
    }
    return text === "" ? "{}" : `${text}}`;
  };
}
