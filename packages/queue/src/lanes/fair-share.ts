/**
 * Fair shares among the lanes of a queue (start-time fair queueing). Each task has a start tag: where the work of its
 * lane stands, divided by the weight of the lane. The smallest tag is next, so that for any two lanes with work
 *
 *   |served / weight - served' / weight'| <= largest cost / weight + largest cost' / weight'
 *
 * A lane that had no work, or was at a limit, continues at the present tag: it saves nothing up, and owes what it owes.
 * Deficit round robin, the usual choice, either takes many rounds for a task with a large cost, or has a looser bound.
 */

/** The tag of the next task of a lane that gets work, or may go on. */
export function startTag(presentTag: number, endTag: number): number {
  return Math.max(presentTag, endTag);
}

/** Where the lane stands after a task. */
export function endTag(start: number, { cost, weight }: { cost: number; weight: number }): number {
  return start + cost / weight;
}
