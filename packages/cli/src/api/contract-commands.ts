/** Commands on the resources of the API: they call an endpoint by its key, and print its answer. */
import {
  type AskApi,
  eachPage,
  type Given,
  type Giving,
  type ItemOf,
  type Key,
  type Page,
  pageIn,
  type ReplyOf,
  type Shape,
} from "@codeq/client/command-line";
import { limits } from "@codeq/server/command-line";
import type { Call } from "../call.ts";
import type { OptionRow } from "../command.ts";
import { type Column, tableLines } from "../terminal/table.ts";
import { count } from "../terminal/units.ts";
import { endpointOf } from "./api-client.ts";

const pageLimit = 200;

/** The answer of an endpoint: as it came, and as a value. */
export async function ask<K extends Key>(
  call: Call,
  key: K,
  ...given: Giving<K>
): Promise<{ readonly text: string; readonly value: ReplyOf<K> }> {
  const api = await call.api();
  return api.call(key, (given[0] ?? {}) as Given<K>);
}

/** Prints the answer as it came, or in words. */
export async function print<K extends Key>(
  call: Call,
  [key, ...given]: readonly [K, ...Giving<K>],
  say: (value: ReplyOf<K>) => string,
): Promise<void> {
  const { text, value } = await ask(call, key, ...given);
  call.print(call.json ? text : say(value));
}

interface Listing<Item> {
  readonly columns: readonly Column<Item>[];
  /** Printed instead of a table without rows. */
  readonly none: string;
}

interface PagedListing<Item> extends Listing<Item> {
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  /** What the path names. */
  readonly params?: Readonly<Record<string, string>>;
  /** The number of entries to print; default: all. */
  readonly limit?: number;
  /** As JSON, each entry is a line of its own. */
  readonly isLines?: boolean;
}

/** Prints a listing that the server gives page by page. */
export async function showAll<K extends Key>(
  call: Call,
  key: K,
  { columns, none, query = {}, params, limit, isLines = false }: PagedListing<ItemOf<K>>,
): Promise<void> {
  const size = Math.min(limit ?? pageLimit, limits.pageLimitMax);
  const found: ItemOf<K>[] = [];
  let last: Page<ItemOf<K>> = { name: "", items: [] };
  for await (const page of eachPage(asker(call), key, { ...query, limit: size }, params)) {
    found.push(...page.items);
    last = page;
    if (found.length >= (limit ?? Infinity)) break;
  }
  const items = found.slice(0, limit);
  if (call.json && isLines) for (const each of items) call.printJson(each);
  else if (call.json) call.printJson({ [last.name]: items });
  else call.print(tableOf(call, items, { columns, none }));
  if (last.next !== undefined || items.length < found.length) {
    const of = last.total === undefined ? "" : ` of ${count(last.total)}`;
    call.note(`showing the first ${count(items.length)}${of}; use --limit to show more`);
  }
}

/** For functions of the client library that send several requests. */
export function asker(call: Call): AskApi {
  return async (request, key) => {
    const api = await call.api();
    return api.accepted(key, await api.send(request, key)).value;
  };
}

/** Prints a listing that has no pages. */
export function showList<K extends Key>(
  call: Call,
  request: readonly [K, ...Giving<K>],
  listing: Listing<ItemOf<K>>,
): Promise<void> {
  return print(call, request, (value) => tableOf(call, pageIn<ItemOf<K>>(value).items, listing));
}

function tableOf<Item>(
  { style }: Call,
  items: readonly Item[],
  { columns, none }: Listing<Item>,
): string {
  return items.length === 0 ? none : tableLines(columns, items, style).join("\n");
}

/** Prints one entry of a listing, in the same columns. */
export function showOne<K extends Key>(
  call: Call,
  request: readonly [K, ...Giving<K>],
  columns: readonly Column<ReplyOf<K>>[],
): Promise<void> {
  return print(call, request, (value) => tableLines(columns, [value], call.style).join("\n"));
}

/** Calls an endpoint that answers nothing; `json` is what is printed instead of its answer. */
export async function remove<K extends Key>(
  call: Call,
  [key, ...given]: readonly [K, ...Giving<K>],
  { json, done }: { readonly json: object; readonly done: string },
): Promise<void> {
  await ask(call, key, ...given);
  if (call.json) call.printJson(json);
  else call.print(done);
}

/** The body of a request, without the form of JSON text. */
export type BodyOf<K extends Key> =
  Given<K> extends { readonly body?: infer B } ? Exclude<B, string | undefined> : never;

/** The fields of a body that options set (`sets` in the row of the option), each as its shape wants it. */
export function bodyOf<K extends Key>(call: Call, key: K): Partial<BodyOf<K>> {
  const { fields = {} } = endpointOf(key)?.body ?? {};
  const set = (call.row.options ?? []).flatMap((option) => {
    const shape = fields[option.sets ?? ""];
    return shape === undefined ? [] : [[option.sets, optionAs(call, option, shape)]];
  });
  return Object.fromEntries(set);
}

function optionAs({ options }: Call, row: OptionRow, shape: Shape): unknown {
  const { name, value } = row;
  if (value === "time") {
    return shape.kind === "decimal" ? options.exactSeconds(name) : options.seconds(name);
  }
  if (value === "instant") return options.instant(name);
  if (shape.kind === "list") return options.list(name);
  if (shape.kind === "flag") return options.has(name) ? true : undefined;
  if (shape.kind === "whole") {
    return options.wholeNumber(name, { min: shape.min ?? 0, max: shape.max ?? 2 ** 31 });
  }
  // Several values of a text are separated by commas.
  return row.multiple === true && options.has(name)
    ? options.list(name).join(",")
    : options.text(name);
}
