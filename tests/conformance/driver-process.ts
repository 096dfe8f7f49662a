/** A driver as the runner sees it: commands go in, answers and events come out. README.md has the protocol. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

export type Fields = Readonly<Record<string, unknown>>;

/** What a driver answered. */
export type Answer = { readonly ok: Fields } | { readonly error: Fields };

export interface DriverCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** ASCII only: some readers of lines end a line at U+2028. */
export function lineOf(said: Fields): string {
  const escaped = (char: string): string =>
    `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return `${JSON.stringify(said).replaceAll(/[^\x20-\x7e]/g, escaped)}\n`;
}

export class DriverProcess {
  readonly #child: ChildProcess;
  readonly #answers = new Map<number, (answer: Answer) => void>();
  readonly #listeners = new Map<string, (event: Fields) => void>();
  #lastId = 0;
  #end: string | undefined;
  /** The last lines that it wrote for people. */
  notes = "";

  constructor({ command, args, env = {} }: DriverCommand) {
    this.#child = spawn(command, args, {
      stdio: ["pipe", "pipe", "pipe"],
      env: { ...process.env, ...env },
    });
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.notes = (this.notes + text).slice(-notesCharsMax);
    });
    if (this.#child.stdout !== null) {
      createInterface({ input: this.#child.stdout }).on("line", (line) => this.#take(line));
    }
    // Writing to a driver that has ended is answered by its end.
    this.#child.stdin?.on("error", () => {});
    this.#child.on("error", (error) => this.#ended(error.message));
    this.#child.on("close", (code, signal) => this.#ended(`it ended (${signal ?? code})`));
  }

  /** Calls back for every event of this client. */
  listen(client: string, run: (event: Fields) => void): void {
    this.#listeners.set(client, run);
  }

  ask(command: Fields): Promise<Answer> {
    if (this.#end !== undefined) return Promise.resolve({ error: this.#endError(this.#end) });
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve) => {
      this.#answers.set(id, resolve);
      this.#child.stdin?.write(lineOf({ id, ...command }));
    });
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  #take(line: string): void {
    const said = JSON.parse(line) as Fields;
    if (typeof said["id"] === "number") {
      this.#answers.get(said["id"])?.(said as unknown as Answer);
      this.#answers.delete(said["id"]);
    } else this.#listeners.get(String(said["client"]))?.(said);
  }

  #ended(why: string): void {
    this.#end ??= why;
    for (const answer of this.#answers.values()) answer({ error: this.#endError(why) });
    this.#answers.clear();
  }

  #endError(why: string): Fields {
    return { code: "driver_ended", message: `the driver does not answer: ${why}\n${this.notes}` };
  }
}

const notesCharsMax = 4_000;
