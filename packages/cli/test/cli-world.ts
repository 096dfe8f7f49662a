/** Runs commands inside a test: with an environment of its own, and everything printed kept as text. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { type Clock, systemClock } from "@codeq/server/command-line";
import { runCli } from "../src/cli.ts";
import type { Host, Output } from "../src/host.ts";

export interface CliWorldOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** Whether all three streams are a terminal. */
  readonly isTerminal?: boolean;
  readonly columns?: number;
  readonly clock?: Clock;
}

export interface CliEnd {
  readonly code: number;
  readonly output: string;
  readonly errors: string;
}

export class CliWorld implements Disposable {
  /** Stands for the current directory; the home of the user is inside it. */
  readonly directory: string = mkdtempSync(join(tmpdir(), "codeq-cli-"));
  readonly home: string = join(this.directory, "home");
  readonly #stop = new AbortController();
  readonly #options: CliWorldOptions;
  readonly #pressed: ((key: string) => void)[] = [];
  output = "";
  errors = "";
  #onText: () => void = () => {};
  #drawn = 0;

  constructor(options: CliWorldOptions = {}) {
    this.#options = options;
  }

  /** Runs a command to its end and gives what it printed, without what earlier ones did. */
  async run(...argv: string[]): Promise<CliEnd> {
    this.output = "";
    this.errors = "";
    const code = await runCli(argv, this.host());
    return { code, output: this.output, errors: this.errors };
  }

  host(): Host {
    const { env = {}, input = "", isTerminal = false, clock = systemClock } = this.#options;
    const pressed = this.#pressed;
    return {
      env,
      directory: this.directory,
      home: this.home,
      clock,
      output: this.#stream((text) => {
        this.output += text;
      }),
      errors: this.#stream((text) => {
        this.errors += text;
      }),
      input: {
        isTerminal,
        async *text() {
          yield input;
        },
        onKey: (run) => {
          pressed.push(run);
          return () => void pressed.splice(pressed.indexOf(run), 1);
        },
      },
      program: "codeq",
      stopped: () => this.#stop.signal,
      random: (bytes) => {
        this.#drawn += 1;
        return Buffer.alloc(bytes, this.#drawn);
      },
    };
  }

  /** As Ctrl-C would. */
  stop(): void {
    this.#stop.abort();
  }

  press(key: string): void {
    for (const run of [...this.#pressed]) run(key);
  }

  /** Resolves when a text has been printed, on either stream. */
  printed(text: string | RegExp): Promise<void> {
    return new Promise((resolve) => {
      const check = (): void => {
        const all = stripVTControlCharacters(this.output + this.errors);
        if (typeof text === "string" ? all.includes(text) : text.test(all)) resolve();
      };
      const before = this.#onText;
      this.#onText = () => {
        before();
        check();
      };
      check();
    });
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true });
  }

  #stream(take: (text: string) => void): Output {
    const { isTerminal = false, columns = 100 } = this.#options;
    const onText = (): void => this.#onText();
    return {
      isTerminal,
      columns,
      rows: 30,
      write: (text) => {
        take(text);
        onText();
      },
      onResize: () => () => {},
    };
  }
}
