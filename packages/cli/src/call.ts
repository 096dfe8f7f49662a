/** One run of a command: its arguments, and the ways to answer. */
import { ApiClient } from "./api/api-client.ts";
import type { CommandRow } from "./command.ts";
import type { Host } from "./host.ts";
import type { Options } from "./options.ts";
import type { ParsedCommand } from "./parse-arguments.ts";
import { resolveConnection } from "./profile/connection.ts";
import { chooseStyle, type Style } from "./terminal/style.ts";

export class Call {
  readonly host: Host;
  readonly row: CommandRow;
  readonly options: Options;
  readonly words: readonly string[];
  /** What stood behind `--`. */
  readonly behind: readonly string[];
  /** Flags of the server, in the order they were given. */
  readonly serverArgs: readonly string[];
  /** The whole table, for commands about commands. */
  readonly commands: readonly CommandRow[];
  /** Whether the answer is to be JSON. */
  readonly json: boolean;
  readonly style: Style;
  #api: Promise<ApiClient> | undefined;

  constructor(host: Host, parsed: ParsedCommand, commands: readonly CommandRow[]) {
    this.host = host;
    this.commands = commands;
    this.row = parsed.row;
    this.options = parsed.options;
    this.words = parsed.words;
    this.behind = parsed.behind;
    this.serverArgs = parsed.serverArgs;
    this.json = parsed.options.has("json");
    this.style = chooseStyle({
      isTerminal: host.output.isTerminal,
      env: host.env,
      refused: parsed.options.has("no-color"),
    });
  }

  /** The argument at a position; empty when it is optional and missing. */
  word(position: number): string {
    return this.words[position] ?? "";
  }

  /** The server that the options speak of. */
  api(): Promise<ApiClient> {
    this.#api ??= resolveConnection(this.host, this.options).then(
      (connection) => new ApiClient(connection, this.host.clock),
    );
    return this.#api;
  }

  /** A line of the answer. */
  print(line: string): void {
    this.host.output.write(`${line}\n`);
  }

  printJson(value: unknown): void {
    this.print(JSON.stringify(value));
  }

  /** The answer: JSON (a value, or text as the server sent it) or lines for people. */
  answer(json: object | string, ...lines: readonly string[]): void {
    if (!this.json) for (const line of lines) this.print(line);
    else if (typeof json === "string") this.print(json);
    else this.printJson(json);
  }

  /** A line for the person at the keyboard, which is not part of the answer. */
  note(line: string): void {
    if (!this.json) this.host.errors.write(`${line}\n`);
  }
}
