/**
 * Merges several sorted lists, each of which is known up to some point. Entries behind the nearest of these
 * points are left for the next page, because an unknown entry may come before them.
 */
export interface Run<Item> {
  readonly items: readonly Item[];
  /** The id up to which the run is complete; undefined when there is nothing more. */
  readonly reached: string | undefined;
}

export function mergeRuns<Item>(
  runs: readonly Run<Item>[],
  how: {
    readonly idOf: (item: Item) => string;
    readonly comesFirst: (id: string, other: string) => boolean;
  },
): Run<Item> {
  const { idOf, comesFirst } = how;
  let reached: string | undefined;
  for (const run of runs) {
    if (run.reached === undefined) continue;
    if (reached === undefined || comesFirst(run.reached, reached)) reached = run.reached;
  }
  const isKnown = (id: string): boolean => reached === undefined || !comesFirst(reached, id);
  const items = runs.flatMap((run) => run.items.filter((item) => isKnown(idOf(item))));
  return { items: items.sort((a, b) => (comesFirst(idOf(a), idOf(b)) ? -1 : 1)), reached };
}

/** The first of a run, and where to go on behind them. */
export function firstOf<Item>(
  { items, reached }: Run<Item>,
  limit: number,
  idOf: (item: Item) => string,
): Run<Item> {
  if (items.length <= limit) return { items, reached };
  const first = items.slice(0, limit);
  return { items: first, reached: idOf(first.at(-1) as Item) };
}
