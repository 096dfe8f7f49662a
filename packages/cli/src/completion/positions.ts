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
  /** Whether one of its arguments is a queue. */
  readonly takesQueue: boolean;
}

export function positionsOf(rows: readonly CommandRow[]): readonly Position[] {
  const names = new Set(rows.flatMap(({ name }) => [name, name.split(" ")[0] as string]));
  const first = { words: firstWords(rows), options: [], choices: [], takesQueue: false };
  return [{ path: "", ...first }, ...[...names].map((path) => positionOf(path, rows))];
}

/** Behind the name of a command, or behind the word that several commands begin with, or both. */
function positionOf(path: string, rows: readonly CommandRow[]): Position {
  const row = rows.find(({ name }) => name === path);
  const given = row?.arguments ?? [];
  return {
    path,
    words: rows
      .filter(({ name }) => name.startsWith(`${path} `))
      .map(({ name, about }) => ({ word: name.slice(path.length + 1), about })),
    options:
      row === undefined
        ? []
        : [...optionsOf(row), ...(row.serverFlags === undefined ? [] : serverFlagRows())],
    choices: choicesOf(given),
    takesQueue: given.some(({ isQueue }) => isQueue === true),
  };
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

/** Options whose value is a queue, each behind the name of its command. */
export function queueOptions(positions: readonly Position[]): readonly string[] {
  return positions.flatMap(({ path, options }) =>
    options.filter(({ isQueue }) => isQueue === true).map(({ name }) => `${path} --${name}`),
  );
}
