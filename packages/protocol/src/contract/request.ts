/** Requests of clients, by the keys of endpoints. Only the types of the endpoints are needed to make one. */

import type { api } from "../api/index.ts";
import type { Method } from "./endpoint.ts";
import type { Flat, WireFields, WireOf } from "./shape.ts";

type Tables = typeof api;
type AnyEndpoint = { [R in keyof Tables]: Tables[R][keyof Tables[R]] }[keyof Tables];

/** Every endpoint by its key, such as `GET /admin/topics/:topicName`. */
export type Api = { readonly [E in AnyEndpoint as E["key"]]: E };
export type Key = keyof Api;

type FieldsIn<E, P extends string> = E extends { readonly [N in P]: infer F }
  ? Named<P, WireFields<F>>
  : unknown;
/** JSON text is sent as it is: a payload keeps its bytes. */
type BodyIn<E> = E extends { readonly body: infer B }
  ? E extends { readonly bodyOptional: true }
    ? { readonly body?: WireOf<B> | string }
    : { readonly body: WireOf<B> | string }
  : unknown;
/** A part in which nothing has to be given may be left out. */
type Named<P extends string, T> = object extends T
  ? { readonly [N in P]?: T }
  : { readonly [N in P]: T };

type Givens = {
  readonly [K in Key]: Flat<
    FieldsIn<Api[K], "params"> & FieldsIn<Api[K], "query"> & BodyIn<Api[K]>
  >;
};
/** The parameters, the query and the body of a request. */
export type Given<K extends Key> = Givens[K];

type Givings = {
  readonly [K in Key]: object extends Givens[K] ? [given?: Givens[K]] : [given: Givens[K]];
};
/** The same as arguments of a function: none where nothing has to be given. */
export type Giving<K extends Key> = Givings[K];

type Shown<R> = R extends { readonly shape: infer S } ? WireOf<S> : undefined;
type Replies = { readonly [K in Key]: Shown<Api[K]["replies"][keyof Api[K]["replies"]]> };
/** What an endpoint answers; undefined for an empty answer. */
export type ReplyOf<K extends Key> = Replies[K];

type ItemIn<R> = { [N in keyof R]-?: R[N] extends readonly (infer I)[] ? I : never }[keyof R];
type Items = { readonly [K in Key]: ItemIn<Replies[K]> };
/** What a listing is of. */
export type ItemOf<K extends Key> = Items[K];

export interface ApiRequest {
  readonly method: Method;
  /** Below `/v1/codeq`, with the query. */
  readonly path: string;
  /** JSON text. */
  readonly body?: string;
}

interface AnyGiven {
  readonly params?: Readonly<Record<string, unknown>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
}

export function requestOf<K extends Key>(key: K, ...[given]: Giving<K>): ApiRequest {
  const { params = {}, query = {}, body }: AnyGiven = given ?? {};
  const [method, template = ""] = key.split(" ") as [Method, string];
  const path = template.replace(/:(\w+)/g, (_, name) => encodeURIComponent(String(params[name])));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) search.set(name, String(value));
  }
  return {
    method,
    path: search.size === 0 ? path : `${path}?${search}`,
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  };
}
