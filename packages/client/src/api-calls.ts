/** Calls of the endpoints of the API, by their keys. */
import {
  type ApiRequest,
  type Giving,
  type ItemOf,
  type Key,
  type ReplyOf,
  requestOf,
} from "@codeq/protocol";
import { CodeqError } from "./codeq-error.ts";

/** Sends the request of an endpoint, and gives its answer; a refusal is thrown. */
export type AskApi = (request: ApiRequest, key: Key) => Promise<unknown>;

export async function call<K extends Key>(
  ask: AskApi,
  key: K,
  ...given: Giving<K>
): Promise<ReplyOf<K>> {
  return (await ask(requestOf(key, ...given), key)) as ReplyOf<K>;
}

/** Of several answers, those that have a field of this name; a map has none. */
type With<A, F> = A extends unknown
  ? string extends keyof A
    ? never
    : F extends keyof A
      ? A
      : never
  : never;

/** Of an endpoint with several answers, the one that has this field. */
export function answerWith<A extends object, const F extends string>(
  field: F,
  answer: A,
): With<A, F> {
  if (field in answer) return answer as unknown as With<A, F>;
  throw new CodeqError("not_codeq", `the answer has no ${field}`);
}

type Query = Readonly<Record<string, string | number | undefined>>;
/** What the path of a listing names. */
type Params = Readonly<Record<string, string>>;

/** Everything that a listing has, page after page. */
export function pages<K extends Key>(
  ask: AskApi,
  key: K,
  query?: Query,
  params?: Params,
): AsyncGenerator<ItemOf<K>, void, undefined> {
  return itemsOf(eachPage(ask, key, query, params));
}

/** Not a part of `pages`, where the compiler would have to resolve the items of every endpoint. */
async function* itemsOf<Item>(
  all: AsyncIterable<Page<Item>>,
): AsyncGenerator<Item, void, undefined> {
  for await (const { items } of all) yield* items;
}

export interface Page<Item> {
  /** The name of the field that has the entries. */
  readonly name: string;
  readonly items: readonly Item[];
  readonly next?: string;
  readonly total?: number;
}

/** Each page of a listing. */
export async function* eachPage<K extends Key>(
  ask: AskApi,
  key: K,
  query: Query = {},
  params: Params = {},
): AsyncGenerator<Page<ItemOf<K>>> {
  for (let after = query["after"] ?? ""; ; ) {
    const given = [{ params, query: { ...query, after } }] as unknown as Giving<K>;
    const page = pageIn<ItemOf<K>>(await call(ask, key, ...given));
    yield page;
    if (page.next === undefined) return;
    after = page.next;
  }
}

/** The answer of a listing as a page, whatever its field is called. */
export function pageIn<Item>(answer: unknown): Page<Item> {
  const fields = answer as Readonly<Record<string, readonly Item[]>>;
  const [name = ""] = Object.keys(fields).filter((each) => Array.isArray(fields[each]));
  return { ...(answer as Page<Item>), name, items: fields[name] ?? [] };
}
