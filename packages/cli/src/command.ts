/**
 * The type of a row in the table of commands, from which parsing, help, completion and the manual page are
 * derived. The code of a command is loaded when it is run, so that a short command starts fast.
 */
import type { Call } from "./call.ts";

export interface OptionRow {
  /** Without the dashes. */
  readonly name: string;
  readonly short?: string;
  /** What its value is called; an option without one is a switch. */
  readonly value?: string;
  /** May be given several times. */
  readonly multiple?: true;
  readonly choices?: readonly string[];
  /** Its value is the name of a queue; a shell asks the server for names. */
  readonly isQueue?: true;
  /** The field of the body that it sets; its type and bounds are those of the field. */
  readonly sets?: string;
  /** The variable that stands in for it. */
  readonly env?: string;
  readonly about: string;
}

export interface ArgumentRow {
  readonly name: string;
  readonly about: string;
  readonly optional?: true;
  /** The last one may be given several times. */
  readonly multiple?: true;
  /** What a shell offers for it. */
  readonly choices?: readonly string[];
  /** The name of a queue; a shell asks the server for names. */
  readonly isQueue?: true;
}

interface Example {
  /** Without the name of the program. */
  readonly line: string;
  readonly about: string;
}

export type CommandGroup =
  | "start"
  | "tasks"
  | "watch"
  | "repair"
  | "access"
  | "check"
  | "go"
  | "shell";

export const groupTitles: Readonly<Record<CommandGroup, string>> = {
  start: "Start",
  tasks: "Tasks",
  watch: "Watch",
  repair: "Find and repair",
  access: "Access",
  check: "Check and measure",
  go: "Compatible with the Go command line, for existing scripts",
  shell: "Shell",
};

export interface CommandRow {
  /** One or two words: `enqueue`, `task create`. */
  readonly name: string;
  readonly group: CommandGroup;
  /** One sentence. */
  readonly about: string;
  /** Further sentences for its own help. */
  readonly details?: readonly string[];
  readonly arguments?: readonly ArgumentRow[];
  readonly options?: readonly OptionRow[];
  /** What may stand behind `--`. */
  readonly behind?: ArgumentRow;
  /** It talks to a server, so the options that say which one and who apply. */
  readonly connects?: true;
  /** Flags of the server are accepted and passed on; its help may list them all. */
  readonly serverFlags?: "accepted" | "listed";
  /** Advice for users who pass options that the command does not have. */
  readonly otherOptions?: string;
  readonly examples?: readonly Example[];
  /** Gives the exit code; nothing for success. */
  // biome-ignore lint/suspicious/noConfusingVoidType: most commands return nothing.
  readonly run: (call: Call) => Promise<number | void>;
}

export function usageOf(row: CommandRow): string {
  const words = (row.arguments ?? []).map(({ name, optional, multiple }) => {
    const word = optional === true ? `[${name}]` : `<${name}>`;
    return multiple === true ? `${word}...` : word;
  });
  const behind = row.behind === undefined ? [] : [`-- ${row.behind.name}`];
  const flags = row.serverFlags !== undefined ? ["[options] [server flags]"] : ["[options]"];
  return [row.name, ...words, ...flags, ...behind].join(" ");
}
