/**
 * Makes an operation of an endpoint of the API: who may call it and what it is given are written there. The input is
 * checked against the bounds of the endpoint before anything else happens.
 *
 * TypeScript infers the output from left to right, so `run` is written before `audit` and `show`.
 */
import type { Endpoint, Flat, KeptFields, KeptOf } from "@codeq/protocol/api";
import { boundsOf } from "./bounds.ts";
import type { Operation, Refusal } from "./operation.ts";

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

type Own<Input, Output> = Omit<Operation<Input, Output>, "name" | "access" | "scope">;
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
    ...rules,
    ...headOf(endpoint),
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
  return { ...rules, ...headOf(endpoint) };
}

/** The part of an operation that its endpoint decides. */
function headOf({
  name,
  operation = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
  access,
  scope,
}: Endpoint): Pick<Operation<never, never>, "name" | "access" | "scope"> {
  return { name: operation, access, scope };
}
