/** Calls of the endpoints of the API, by their keys. */
import {
  type ApiRequest,
  type Giving,
  type ItemOf,
  type Key,
  type ReplyOf,
  requestOf,
} from "@codeq/protocol";

/** Sends a request, and gives its answer; a refusal is thrown. */
export type AskApi = (request: ApiRequest) => Promise<unknown>;

export async function call<K extends Key>(
  ask: AskApi,
  key: K,
  ...given: Giving<K>
): Promise<ReplyOf<K>> {
  return (await ask(requestOf(key, ...given))) as ReplyOf<K>;
}

type Query = Readonly<Record<string, string | number | undefined>>;

/** Everything that a listing has, page after page. */
export async function* pages<K extends Key>(
  ask: AskApi,
  key: K,
  query?: Query,
): AsyncGenerator<ItemOf<K>, void, undefined> {
  for await (const { items } of eachPage(ask, key, query)) yield* items;
}

/** Each page of a listing, with the name of the field that has its entries. */
export async function* eachPage<K extends Key>(
  ask: AskApi,
  key: K,
  query: Query = {},
): AsyncGenerator<{ readonly name: string; readonly items: readonly ItemOf<K>[] }> {
  for (let after: unknown = ""; after !== undefined; ) {
    const given = [{ query: { ...query, after } }] as unknown as Giving<K>;
    const page = (await call(ask, key, ...given)) as Readonly<Record<string, unknown>>;
    const name = Object.keys(page).find((each) => Array.isArray(page[each])) ?? "";
    yield { name, items: page[name] as readonly ItemOf<K>[] };
    after = page["next"];
  }
}
