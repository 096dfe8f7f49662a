/**
 * Pages of things that may be large, such as results: a page ends early when it is large, so that the memory for an
 * answer does not depend on what callers have stored.
 */
import type { Run } from "./task-search.ts";

/** A page ends behind the item with which it is larger. */
const pageCharsMax = 4 * 1024 * 1024;

export interface PageItem<Item> {
  readonly item: Item;
  readonly chars: number;
}

/** The items of these ids, which are in their order; `hasMore` says whether there are ids behind them. */
export function pageOf<Item>(
  ids: readonly string[],
  hasMore: boolean,
  read: (id: string) => PageItem<Item> | undefined,
): Run<Item> {
  const items: Item[] = [];
  let chars = 0;
  for (const [at, id] of ids.entries()) {
    const found = read(id);
    if (found === undefined) continue;
    items.push(found.item);
    chars += found.chars;
    if (chars >= pageCharsMax && at < ids.length - 1) return { items, reached: id };
  }
  return { items, reached: hasMore ? ids.at(-1) : undefined };
}
