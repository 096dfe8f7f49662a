/**
 * The words that can follow at each position of the command line, from the table of commands, for all
 * shells.
 */
import type { ArgumentRow, CommandRow, OptionRow } from "../command.ts";
import { optionsOf } from "../parse-arguments.ts";
import { serverFlagRows } from "../server-flags.ts";

export interface Position {
  /** The words before it: ``, `task`, `task create`. */
  readonly path: string;
  /** Words that continue the name of a command. */
  readonly words: readonly { readonly word: string; readonly about: string }[];
  readonly options: readonly OptionRow[];
  /** Arguments with a known set of values. */
  readonly choices: readonly string[];
}

export function positionsOf(rows: readonly CommandRow[]): readonly Position[] {
  const families = new Set(
    rows.filter(({ name }) => name.includes(" ")).map(({ name }) => name.split(" ")[0] as string),
  );
  return [
    { path: "", words: firstWords(rows), options: [], choices: [] },
    ...[...families].map((family) => ({
      path: family,
      words: rows
        .filter(({ name }) => name.startsWith(`${family} `))
        .map(({ name, about }) => ({ word: name.slice(family.length + 1), about })),
      options: [],
      choices: [],
    })),
    ...rows.map((row) => ({
      path: row.name,
      words: [],
      options: [...optionsOf(row), ...(row.serverFlags === undefined ? [] : serverFlagRows())],
      choices: choicesOf(row.arguments ?? []),
    })),
  ];
}

function firstWords(rows: readonly CommandRow[]): Position["words"] {
  const words = new Map<string, string>();
  for (const { name, about } of rows) {
    const [first = "", second] = name.split(" ");
    if (second === undefined) words.set(first, about);
    else if (!words.has(first)) words.set(first, `${first} commands`);
  }
  return [...words].map(([word, about]) => ({ word, about }));
}

function choicesOf(rows: readonly ArgumentRow[]): readonly string[] {
  return rows[0]?.choices ?? [];
}

/** All options that take a value, wherever they may stand. */
export function valueOptions(positions: readonly Position[]): readonly OptionRow[] {
  const found = new Map<string, OptionRow>();
  for (const { options } of positions) {
    for (const option of options) if (option.value !== undefined) found.set(option.name, option);
  }
  return [...found.values()];
}

/** Options whose values are known, with the values. */
export function choiceOptions(positions: readonly Position[]): readonly OptionRow[] {
  return valueOptions(positions).filter(({ choices }) => choices !== undefined);
}
