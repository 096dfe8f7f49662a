/** Options of benchmarks that can be run by turns with another checkout. */
import { againstOption, type Checkout } from "./checkout.ts";
import { type Option, wholeNumber } from "./options.ts";
import type { Turns } from "./table.ts";

const roundsAgainst = 3;

export const turnsHelp = `--against <folder>         of another checkout with its packages installed, measured by turns
    --rounds 1                 of each case, 3 with --against; each is shown, then the medians
    --syscalls 0               seconds in which system calls are counted, after each measurement`;

export function turnOptions(): {
  readonly against: Option<readonly Checkout[]>;
  readonly rounds: Option<number>;
  readonly syscalls: Option<number>;
} {
  return { against: againstOption(), rounds: wholeNumber("0", 0), syscalls: wholeNumber("0", 0) };
}

export function turnsOf(values: {
  readonly against: readonly Checkout[];
  readonly rounds: number;
}): Turns {
  const usual = values.against.length > 1 ? roundsAgainst : 1;
  return { checkouts: values.against, rounds: values.rounds === 0 ? usual : values.rounds };
}
