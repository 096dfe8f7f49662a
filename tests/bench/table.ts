/** How figures are shown. */

import type { Checkout } from "./checkout.ts";
import { cellOf, type Figure, medianFigures, ratioFigures } from "./figures.ts";

const columnWidthMin = 10;

/** Prints a heading before its first row. */
export class Table {
  readonly #labels: readonly string[];
  readonly #labelWidth: number;
  #widths: readonly number[] = [];

  constructor(labels: readonly string[], labelWidth: number = columnWidthMin) {
    this.#labels = labels;
    this.#labelWidth = labelWidth;
  }

  add(labels: readonly string[], figures: readonly Figure[]): void {
    if (this.#widths.length === 0) {
      const names = figures.map(({ name }) => name);
      const widths = names.map((name) => Math.max(columnWidthMin, name.length + 1));
      this.#widths = [...this.#labels.map(() => this.#labelWidth), ...widths];
      this.#print([...this.#labels, ...names]);
    }
    this.#print([...labels, ...figures.map(cellOf)]);
  }

  #print(cells: readonly string[]): void {
    const padded = cells.map((cell, index) => cell.padStart(this.#widths[index] ?? columnWidthMin));
    console.log(padded.join("  "));
  }
}

export interface Turns {
  /** The one that is compared with first. */
  readonly checkouts: readonly Checkout[];
  readonly rounds: number;
}

/** What a table begins with when rows are added by turns. */
export function turnLabels(labels: readonly string[], turns: Turns): string[] {
  return hasTurns(turns) ? [...labels, "checkout"] : [...labels];
}

/**
 * Measures one case in all checkouts, round by round, so that what disturbs the machine disturbs both;
 * then adds the medians, and how many times those of the other checkout this one has.
 */
export async function addByTurns(
  table: Table,
  turns: Turns,
  what: {
    readonly labels: readonly string[];
    readonly run: (checkout: Checkout) => Promise<readonly Figure[]>;
  },
): Promise<void> {
  const { labels, run } = what;
  const measured = turns.checkouts.map((): (readonly Figure[])[] => []);
  for (let round = 1; round <= turns.rounds; round += 1) {
    for (const [index, checkout] of turns.checkouts.entries()) {
      const figures = await run(checkout);
      measured[index]?.push(figures);
      table.add(hasTurns(turns) ? [...labels, `${checkout.name} ${round}`] : labels, figures);
    }
  }
  if (!hasTurns(turns)) return;
  const medians = measured.map(medianFigures);
  for (const [index, checkout] of turns.checkouts.entries()) {
    table.add([...labels, checkout.name], medians[index] ?? []);
  }
  const [first, second] = medians;
  if (first === undefined || second === undefined) return;
  table.add([...labels, "ratio"], ratioFigures(first, second));
}

function hasTurns({ checkouts, rounds }: Turns): boolean {
  return checkouts.length > 1 || rounds > 1;
}

/** Goes beside the table, so that the table can be kept. */
export function progress(text: string): void {
  process.stderr.write(`  ${text}\n`);
}
