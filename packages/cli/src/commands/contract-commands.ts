/** Commands on the resources of the API: they call an endpoint by its key, and print its answer. */
import {
  type ApiRequest,
  eachPage,
  type Fields,
  type Given,
  type Giving,
  type ItemOf,
  type Key,
  type ReplyOf,
  type Shape,
  type WireFields,
} from "@codeq/client/command-line";
import { parsed } from "../api/api-client.ts";
import type { Call } from "../call.ts";
import type { OptionRow } from "../command.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Column, tableLines } from "../terminal/table.ts";

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
export async function tell<K extends Key>(
  call: Call,
  [key, ...given]: readonly [K, ...Giving<K>],
  say: (value: ReplyOf<K>) => string,
): Promise<number> {
  const { text, value } = await ask(call, key, ...given);
  call.print(call.json ? text : say(value));
  return exitCodes.ok.code;
}

/** Prints a listing to its end. */
export async function showAll<K extends Key>(
  call: Call,
  key: K,
  {
    columns,
    none,
    query = {},
  }: {
    readonly columns: readonly Column<ItemOf<K>>[];
    readonly none: string;
    readonly query?: Readonly<Record<string, string | number | undefined>>;
  },
): Promise<number> {
  const items: ItemOf<K>[] = [];
  let name = "";
  const api = await call.api();
  const askApi = async (request: ApiRequest) => parsed((await api.send(request)).text);
  for await (const page of eachPage(askApi, key, { ...query, limit: pageLimit })) {
    items.push(...page.items);
    name = page.name;
  }
  if (call.json) call.printJson({ [name]: items });
  else if (items.length === 0) call.print(none);
  else for (const line of tableLines(columns, items, call.style)) call.print(line);
  return exitCodes.ok.code;
}

/** Prints one entry of a listing, in the same columns. */
export function showOne<K extends Key>(
  call: Call,
  request: readonly [K, ...Giving<K>],
  columns: readonly Column<ReplyOf<K>>[],
): Promise<number> {
  return tell(call, request, (value) => tableLines(columns, [value], call.style).join("\n"));
}

/** Calls an endpoint that answers nothing; `json` is what is printed instead of its answer. */
export async function remove<K extends Key>(
  call: Call,
  [key, ...given]: readonly [K, ...Giving<K>],
  { json, done }: { readonly json: object; readonly done: string },
): Promise<number> {
  await ask(call, key, ...given);
  if (call.json) call.printJson(json);
  else call.print(done);
  return exitCodes.ok.code;
}

/** The fields of a body that options set (`sets` in the row of the option), each as its shape wants it. */
export function bodyOf<F extends Fields>(
  call: Call,
  { fields }: { readonly fields: F },
): Partial<WireFields<F>> {
  const set = (call.row.options ?? []).flatMap((option) => {
    const shape = fields[option.sets ?? ""];
    return shape === undefined ? [] : [[option.sets, optionAs(call, option, shape)]];
  });
  return Object.fromEntries(set);
}

function optionAs({ options }: Call, { name, value }: OptionRow, shape: Shape): unknown {
  if (shape.kind === "list") return options.list(name);
  if (shape.kind === "instant") return options.instant(name);
  if (shape.kind === "flag") return options.has(name) ? true : undefined;
  if (shape.kind !== "whole") return options.text(name);
  if (value !== "time") {
    return options.wholeNumber(name, { min: shape.min ?? 0, max: shape.max ?? 2 ** 31 });
  }
  const ms = options.durationMs(name);
  return ms === undefined ? undefined : Math.ceil(ms / 1000);
}
