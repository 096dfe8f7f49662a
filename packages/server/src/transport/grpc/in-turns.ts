/**
 * Decides about each item of a batch in its order, so many in each turn of the event loop: a batch of
 * tens of thousands must not hold up everybody else.
 */
import type { MaybePromise } from "../../maybe-promise.ts";

export const itemsPerTurnMax = 256;

export async function decideInTurns<Item, T>(
  items: readonly Item[],
  decide: (item: Item) => MaybePromise<T>,
): Promise<{ readonly answers: Promise<T[]> }> {
  const turns: Promise<T[]>[] = [];
  for (let start = 0; start < items.length; start += itemsPerTurnMax) {
    if (start > 0) await new Promise<void>((resolve) => setImmediate(resolve));
    const turn = Promise.all(items.slice(start, start + itemsPerTurnMax).map(decide));
    // A failure is told with the others, when all are decided.
    turn.catch(() => {});
    turns.push(turn);
  }
  return { answers: Promise.all(turns).then((all) => all.flat()) };
}
