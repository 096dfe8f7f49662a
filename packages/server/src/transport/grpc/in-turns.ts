/**
 * Processes the items of a batch in order, a limited number in each turn of the event loop, so that a batch
 * of tens of thousands does not block the server.
 */
export const itemsPerTurnMax = 256;

export async function inTurns<Item>(
  items: readonly Item[],
  decide: (item: Item, at: number) => void,
): Promise<void> {
  for (const [at, item] of items.entries()) {
    if (at > 0 && at % itemsPerTurnMax === 0) await nextTurn();
    decide(item, at);
  }
}

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
