/**
 * Makes an operation of an endpoint of the API: who may call it and what it is given are written there. The input is
 * checked against the bounds of the endpoint before anything else happens.
 *
 * What administrators do is recorded with the parameters of the path, and changes count in the rate limits of
 * producers and administrators; an operation states only what differs.
 *
 * TypeScript infers the output from left to right, so `run` is written before `audit` and `show`.
 */
import {
  type Endpoint,
  type Flat,
  type KeptFields,
  type KeptOf,
  keptName,
} from "@codeq/protocol/api";
import { isForAdmins } from "./access/authenticator.ts";
import { boundsOf } from "./bounds.ts";
import type { AuditRule, Operation, Rate, Refusal } from "./operation.ts";

type Part<E, P extends string> = E extends { readonly [N in P]: infer F } ? KeptFields<F> : unknown;
type BodyPart<E> = E extends { readonly body: infer B } ? KeptOf<B> : unknown;
/** Parameters, query and body, with the names that the server has for them. */
export type InputOf<E> = Flat<Part<E, "params"> & Part<E, "query"> & BodyPart<E>>;

type Kept<R> = R extends { readonly shape: infer S } ? KeptOf<S> : undefined;
type ReplyOf<E extends Endpoint> = Kept<E["replies"][keyof E["replies"]]>;

/** What is shown of an output, and with which status of the endpoint. */
export interface Shown<Value> {
  readonly status: number;
  readonly value: Value;
  readonly headers?: Readonly<Record<string, string>>;
}

type Own<Input, Output> = Omit<
  Operation<Input, Output>,
  "name" | "access" | "scope" | "rate" | "audit"
> & {
  readonly rate?: Rate | "none";
  readonly audit?: Partial<AuditRule<Input, Output>>;
};
type Rules<E, Output> = Own<InputOf<E>, Output>;
type Showing<E extends Endpoint, Output> = {
  readonly show: (output: Output) => Shown<ReplyOf<E>>;
};

export interface Bound<Input, Output, Key extends string> extends Operation<Input, Output> {
  readonly endpoint: Endpoint & { readonly key: Key };
  /** The refusal of an input that is beyond its bounds; `run` looks at it first. */
  readonly problemOf: (input: Input) => Refusal | undefined;
  /** Undefined where the output is shown as it is, with the first status. */
  readonly show?: (output: Output) => Shown<unknown>;
}

export function bind<E extends Endpoint, Output>(
  endpoint: E,
  rules: Rules<E, Output> & Showing<E, Output>,
): Bound<InputOf<E>, Output, E["key"]>;
export function bind<E extends Endpoint, Output extends ReplyOf<E>>(
  endpoint: E,
  rules: Rules<E, Output>,
): Bound<InputOf<E>, Output, E["key"]>;
export function bind<E extends Endpoint, Output>(
  endpoint: E,
  rules: Rules<E, Output> & Partial<Showing<E, Output>>,
): Bound<InputOf<E>, Output, E["key"]> {
  return bindInput(endpoint, rules);
}

/** The same for a route that writes its answers itself. */
export function bindInput<E extends Endpoint, Output>(
  endpoint: E,
  rules: Rules<E, Output>,
): Bound<InputOf<E>, Output, E["key"]> {
  const problemOf: (input: InputOf<E>) => Refusal | undefined = boundsOf(endpoint);
  return {
    ...operationOf(endpoint, rules),
    endpoint,
    problemOf,
    run: (server, call, input) => problemOf(input) ?? rules.run(server, call, input),
  };
}

/** The same for an operation that has an input of its own and checks it: on hot paths, and for files. */
export function bindByHand<Input, Output>(
  endpoint: Endpoint,
  rules: Own<Input, Output>,
): Operation<Input, Output> {
  return operationOf(endpoint, rules);
}

const creation: Rate = { scope: "producer", operation: "create_task" };
const administration: Rate = { scope: "admin", operation: "tasks" };

function operationOf<Input, Output>(
  endpoint: Endpoint,
  { rate, audit, ...rules }: Own<Input, Output>,
): Operation<Input, Output> {
  const { name, access, scope, key, params = {} } = endpoint;
  const { operation = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) } = endpoint;
  const head = { ...rules, name: operation, access, scope };
  const isRead = access === "viewer" || key.startsWith("GET ");
  const counted = rate ?? (isRead ? "none" : changesOf(access));
  const limited = counted === "none" ? head : { ...head, rate: counted };
  if (!isForAdmins(access)) return limited;
  const names = Object.entries(params).map(([field, shape]) => keptName(field, shape));
  const target = (input: Input): string =>
    names.map((each) => (input as Readonly<Record<string, unknown>>)[each]).join(" ");
  return { ...limited, audit: { of: isRead ? "other tenants" : "all", target, ...audit } };
}

/** What the changes of a caller count as; workers report about tasks that they have, which nothing limits. */
function changesOf(access: Endpoint["access"]): Rate | "none" {
  if (access === "producer") return creation;
  return isForAdmins(access) ? administration : "none";
}
