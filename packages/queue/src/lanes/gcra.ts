/**
 * The rate of a lane as one number: the moment at which its allowance is whole again, in milliseconds (the generic
 * cell rate algorithm). Each unit moves the moment by `perMs / units`. Over any time of `t` ms, at most
 * `burst + t * units / perMs` units are spent, and units that were settled later.
 */

export interface Rate {
  readonly units: number;
  readonly perMs: number;
  /** How many units may be spent at once. */
  readonly burst: number;
}

/** The earliest moment at which so many units may be spent. A cost above the burst waits for the whole burst. */
export function spendableMs(wholeMs: number, rate: Rate, cost: number): number {
  const spared = Math.max(rate.burst - cost, 0);
  return wholeMs - (spared * rate.perMs) / rate.units;
}

/** Spends units. */
export function spend(
  wholeMs: number,
  rate: Rate,
  { cost, nowMs }: { readonly cost: number; readonly nowMs: number },
): number {
  return Math.max(wholeMs, nowMs) + (cost * rate.perMs) / rate.units;
}

/** Corrects what was spent: the moment moves by the difference, never before now. */
export function settle(
  wholeMs: number,
  rate: Rate,
  { cost, used, nowMs }: { readonly cost: number; readonly used: number; readonly nowMs: number },
): number {
  return Math.max(Math.max(wholeMs, nowMs) + ((used - cost) * rate.perMs) / rate.units, nowMs);
}
