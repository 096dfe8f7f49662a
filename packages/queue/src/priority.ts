/** Priorities are the whole numbers 0 to 9; the highest is delivered first. */
export const priorityMax = 9;

/** The nearest priority to any number, so that a producer's odd value never loses its task. */
export function clampPriority(priority: number): number {
  if (Number.isNaN(priority)) return 0;
  return Math.trunc(Math.min(priorityMax, Math.max(0, priority)));
}
