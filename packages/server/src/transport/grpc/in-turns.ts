/**
 * Decides about each item of a batch in its order, so many in each turn of the event loop: a batch of
 * tens of thousands must not hold up everybody else.
 */
export const itemsPerTurnMax = 256;

export async function inTurns<Item>(
  items: readonly Item[],
  decide: (item: Item, at: number) => void,
): Promise<void> {
  for (const [at, item] of items.entries()) {
    if (at > 0 && at % itemsPerTurnMax === 0) {
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    decide(item, at);
  }
}
