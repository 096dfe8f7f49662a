/**
 * From the words of a command line to a row of the table with its options and arguments. Options may come
 * before and after the command. An unknown word is a usage error that suggests what was probably meant.
 */
import { parseArgs } from "node:util";
import { closestName } from "@codeq/server/command-line";
import { usageError } from "./cli-error.ts";
import { type CommandRow, type OptionRow, usageOf } from "./command.ts";
import { Options } from "./options.ts";
import { connection, everywhere } from "./shared-options.ts";

export interface ParsedCommand {
  readonly kind: "command";
  readonly row: CommandRow;
  readonly options: Options;
  readonly words: readonly string[];
  /** What stood behind `--`. */
  readonly behind: readonly string[];
  /** Flags of the server, in the order they were given. */
  readonly serverArgs: readonly string[];
}

type Parsed =
  | ParsedCommand
  /** Help was asked for: about one row, the rows that begin with a word, or all. */
  | { readonly kind: "help"; readonly about: CommandRow | string | undefined; asked: boolean }
  | { readonly kind: "version" };

export function parseArguments(argv: readonly string[], rows: readonly CommandRow[]): Parsed {
  const found = findCommand(argv, rows);
  if (found.row === undefined) return withoutCommand(argv, found, rows);
  const { row, rest } = found;
  const known = optionsOf(row);
  const { own, serverArgs } =
    row.serverFlags !== undefined
      ? splitServerFlags(rest, { row, known })
      : { own: rest, serverArgs: [] };
  const { options, words, behind } = readWords(row, own, known);
  if (options.has("help")) return { kind: "help", about: row, asked: true };
  checkWords(row, words);
  return { kind: "command", row, options, words, behind, serverArgs };
}

export function optionsOf(row: CommandRow): readonly OptionRow[] {
  return [...(row.options ?? []), ...(row.connects === true ? connection : []), ...everywhere];
}

interface Found {
  readonly row: CommandRow | undefined;
  /** The words of the command as they were given; none when there were only options. */
  readonly name: readonly string[];
  /** Everything else. */
  readonly rest: readonly string[];
}

/** The longest name of the table that the first words make. */
function findCommand(argv: readonly string[], rows: readonly CommandRow[]): Found {
  const positions = wordPositions(argv);
  for (const count of [2, 1]) {
    const taken = positions.slice(0, count);
    const name = taken.map((position) => argv[position] as string);
    const row = rows.find((each) => each.name === name.join(" ") && taken.length === count);
    if (row === undefined) continue;
    return { row, name, rest: argv.filter((_, position) => !taken.includes(position)) };
  }
  return {
    row: undefined,
    name: positions.slice(0, 2).map((position) => argv[position] as string),
    rest: argv,
  };
}

/** Where the first words are that are neither options nor their values. */
export function wordPositions(argv: readonly string[]): number[] {
  const takesValue = new Set(
    [...connection, ...everywhere].filter(({ value }) => value).map(({ name }) => `--${name}`),
  );
  const positions: number[] = [];
  for (let position = 0; position < argv.length && positions.length < 2; position++) {
    const word = argv[position] as string;
    if (word === "--") break;
    if (!word.startsWith("-")) positions.push(position);
    else if (takesValue.has(word)) position += 1;
  }
  return positions;
}

function withoutCommand(
  argv: readonly string[],
  found: Found,
  rows: readonly CommandRow[],
): Parsed {
  const [first, second] = found.name;
  if (first === undefined) return onlyOptions(argv);
  const gone = goneCommands.get(`${first} ${second}`) ?? goneCommands.get(first);
  if (gone !== undefined) throw usageError(...gone);
  const verbs = rows
    .filter(({ name }) => name.startsWith(`${first} `))
    .map(({ name }) => name.slice(first.length + 1));
  if (verbs.length === 0) {
    const known = new Set(rows.map(({ name }) => name.split(" ")[0] as string));
    const hint = didYouMean(first, known, "");
    throw usageError(`there is no command ${JSON.stringify(first)}${hint}`, "codeq help");
  }
  if (second === undefined) {
    return { kind: "help", about: first, asked: argv.includes("--help") || argv.includes("-h") };
  }
  throw usageError(
    `codeq ${first} has no command ${JSON.stringify(second)}; it has ${verbs.join(", ")}`,
    `codeq ${first} --help`,
  );
}

function onlyOptions(argv: readonly string[]): Parsed {
  if (argv.includes("--version") || argv.includes("-V")) return { kind: "version" };
  const other = argv.find((word) => !["--help", "-h", "--json", "--no-color"].includes(word));
  if (other === undefined) return { kind: "help", about: undefined, asked: true };
  throw usageError(`there is no option ${other} without a command`, "codeq help");
}

function didYouMean(name: string, known: Iterable<string>, dashes: string): string {
  const meant = closestName(name, known);
  return meant === undefined ? "" : `; did you mean ${dashes}${meant}?`;
}

/** Flags that are not the command's own are the server's, each with the word that follows it. */
function splitServerFlags(
  argv: readonly string[],
  { row: command, known }: { readonly row: CommandRow; readonly known: readonly OptionRow[] },
): { own: string[]; serverArgs: string[] } {
  const own: string[] = [];
  const serverArgs: string[] = [];
  for (let position = 0; position < argv.length; position++) {
    const word = argv[position] as string;
    const [flag] = word.split("=", 1);
    const row = known.find(({ name, short }) => flag === `--${name}` || flag === `-${short}`);
    // A word that is the value of no flag is an argument of the command, if it has any.
    const isArgument = command.arguments !== undefined && !word.startsWith("-");
    const target = row === undefined && !isArgument ? serverArgs : own;
    target.push(word);
    const next = argv[position + 1];
    const takesNext = row === undefined ? next?.startsWith("-") === false : row.value !== undefined;
    if (word.startsWith("-") && !word.includes("=") && takesNext && next !== undefined) {
      target.push(next);
      position += 1;
    }
  }
  return { own, serverArgs };
}

interface Words {
  readonly options: Options;
  readonly words: string[];
  readonly behind: string[];
}

function readWords(row: CommandRow, argv: readonly string[], known: readonly OptionRow[]): Words {
  const { tokens } = parseArgs({
    args: [...argv],
    options: parserOptions(known),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values = new Map<string, string[]>();
  const words: string[] = [];
  const behind: string[] = [];
  // Elsewhere the dashes only say that what follows is no option.
  let target = words;
  for (const token of tokens) {
    if (token.kind === "option-terminator" && row.behind !== undefined) target = behind;
    if (token.kind === "positional") target.push(token.value);
    if (token.kind !== "option") continue;
    const option = known.find(({ name }) => name === token.name);
    if (option === undefined) throw unknownOption(row, token.rawName, known);
    const given = values.get(option.name) ?? [];
    values.set(option.name, [...given, givenValue(row, option, token.value)]);
  }
  const repeated = known.find(({ name, multiple }) => {
    return multiple !== true && (values.get(name)?.length ?? 0) > 1;
  });
  if (repeated !== undefined)
    throw misuse(row, `--${repeated.name} is given twice; remove one of them`);
  return { options: new Options(known, values), words, behind };
}

type ParserOptions = Record<string, { type: "string" | "boolean"; short?: string; multiple: true }>;

function parserOptions(known: readonly OptionRow[]): ParserOptions {
  const options: ParserOptions = {};
  for (const { name, short, value } of known) {
    const type = value === undefined ? "boolean" : "string";
    options[name] = { type, multiple: true, ...(short === undefined ? {} : { short }) };
  }
  return options;
}

function givenValue(row: CommandRow, option: OptionRow, value: string | undefined): string {
  const { name } = option;
  if (option.value !== undefined) {
    if (value !== undefined) return value;
    throw misuse(row, `--${name} needs a value: --${name} <${option.value}>`);
  }
  // Scripts of the Go command line write --admin=true.
  if (value === undefined || value === "true") return "true";
  if (value === "false") return "false";
  throw misuse(row, `--${name} takes no value`);
}

function unknownOption(row: CommandRow, raw: string, known: readonly OptionRow[]): Error {
  const names = new Set(known.map(({ name }) => name));
  const hint = didYouMean(raw.replace(/^-+/, ""), names, "--");
  const message = `codeq ${row.name} has no option ${raw}${hint}`;
  return row.otherOptions === undefined
    ? misuse(row, message)
    : usageError(message, row.otherOptions);
}

function checkWords(row: CommandRow, words: readonly string[]): void {
  const rows = row.arguments ?? [];
  const missing = rows.find(
    ({ optional }, position) => optional !== true && position >= words.length,
  );
  if (missing !== undefined) {
    throw misuse(row, `<${missing.name}> is missing: ${missing.about}`);
  }
  const extra = words[rows.length];
  if (extra !== undefined && rows.at(-1)?.multiple !== true) {
    throw misuse(
      row,
      `${JSON.stringify(extra)} is an unexpected argument; quote values with spaces`,
    );
  }
}

function misuse(row: CommandRow, message: string): Error {
  return usageError(message, `usage: codeq ${usageOf(row)}\n        codeq ${row.name} --help`);
}

/** Commands of the Go command line that have no counterpart here, and what to do instead. */
const goneCommands: ReadonlyMap<string, readonly [message: string, next: string]> = new Map([
  [
    "auth login",
    [
      "codeq has no login; store tokens in a profile instead",
      "codeq auth set --producer-token <token> --worker-token <token>",
    ],
  ],
  ["install", ["no further installation is needed", "codeq serve --help"]],
  ["migrate-shards", ["this server has no shards in Redis", "codeq shards migrate --to <number>"]],
]);
