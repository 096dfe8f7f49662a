/** The texts of `--help` and `help`, from the table of commands. */

import type { Call } from "./call.ts";
import { usageError } from "./cli-error.ts";
import {
  type CommandGroup,
  type CommandRow,
  groupTitles,
  type OptionRow,
  usageOf,
} from "./command.ts";
import { connection, everywhere, serverFlagRows } from "./shared-options.ts";
import { cliVersion } from "./version.ts";

/** The help for one command, for the commands that begin with a word, or for all of them. */
export function helpFor(
  about: CommandRow | string | undefined,
  rows: readonly CommandRow[],
): string {
  if (about === undefined) return overview(rows);
  if (typeof about !== "string") return helpOf(about);
  const family = rows.filter(({ name }) => name.startsWith(`${about} `));
  return lines([`codeq ${about}`, "", ...listing(family), "", `codeq ${about} <command> --help`]);
}

function overview(rows: readonly CommandRow[]): string {
  const groups = Object.keys(groupTitles) as CommandGroup[];
  return lines([
    "codeq: a durable task queue in one process",
    "",
    "  codeq dev                                      start a server on this machine",
    `  codeq enqueue hello '{"name":"world"}' --wait  create a task and wait for its result`,
    "  codeq work hello -- cat                        run a program for every task of a queue",
    "",
    ...groups.flatMap((group) => {
      const members = rows.filter((row) => row.group === group);
      return members.length === 0 ? [] : [`${groupTitles[group]}:`, ...listing(members), ""];
    }),
    "Run codeq <command> --help for details. All commands take --json, --no-color and --help.",
  ]);
}

function listing(rows: readonly CommandRow[]): string[] {
  const width = Math.max(...rows.map(({ name }) => name.length));
  return rows.map(({ name, about }) => `  ${name.padEnd(width)}  ${about}`);
}

function helpOf(row: CommandRow): string {
  const words = [...(row.arguments ?? []), ...(row.behind === undefined ? [] : [row.behind])];
  const text = [`codeq ${usageOf(row)}`, "", row.about, ...(row.details ?? [])];
  if (words.length > 0) {
    const width = Math.max(...words.map(({ name }) => name.length));
    text.push("", "Arguments:");
    text.push(...words.map(({ name, about }) => `  ${name.padEnd(width)}  ${about}`));
  }
  text.push(...section("Options", row.options ?? []));
  if (row.serverFlags === "accepted") {
    text.push("", "Server flags:", "  All that `codeq serve --help` lists, such as --port 9000.");
  }
  if (row.serverFlags === "listed") text.push(...section("Server flags", serverFlagRows()));
  if (row.connects === true) text.push(...section("Server and token", connection));
  text.push(...section("All commands", everywhere));
  const examples = row.examples ?? [];
  if (examples.length > 0) {
    text.push("", "Examples:");
    for (const { line, about } of examples) text.push(`  # ${about}`, `  codeq ${line}`);
  }
  return lines(text);
}

function section(title: string, options: readonly OptionRow[]): string[] {
  if (options.length === 0) return [];
  const shown = options.map((option) => ({ ...option, left: leftOf(option) }));
  const width = Math.max(...shown.map(({ left }) => left.length));
  return [
    "",
    `${title}:`,
    ...shown.map(({ left, about, env }) => {
      const variable = env === undefined ? "" : ` (${env})`;
      return `  ${left.padEnd(width)}  ${about}${variable}`;
    }),
  ];
}

export function leftOf({ name, short, value }: OptionRow): string {
  const dashes = short === undefined ? `--${name}` : `-${short}, --${name}`;
  return value === undefined ? dashes : `${dashes} <${value}>`;
}

function lines(text: readonly string[]): string {
  return `${text.join("\n")}\n`;
}

/** `help`: for all commands, for those that begin with a word, or for one. */
export async function help(call: Call): Promise<void> {
  const name = call.words.join(" ");
  const row = call.commands.find((each) => each.name === name);
  const isFamily = call.commands.some((each) => each.name.startsWith(`${name} `));
  if (name !== "" && row === undefined && !isFamily) {
    throw usageError(`there is no command ${JSON.stringify(name)}`, "codeq help");
  }
  if (call.json) {
    const rows = call.commands.filter(
      (each) => name === "" || each === row || each.name.startsWith(`${name} `),
    );
    call.printJson({ commands: rows.map(({ run: _, ...fields }) => fields) });
  } else {
    call.host.output.write(helpFor(name === "" ? undefined : (row ?? name), call.commands));
  }
}

export async function version(call: Call): Promise<void> {
  const { platform, arch, versions } = process;
  const text = `codeq ${cliVersion} (Node ${versions.node}, ${platform} ${arch})`;
  call.answer({ version: cliVersion, node: versions.node, platform, arch }, text);
}
