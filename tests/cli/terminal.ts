/** A real terminal: tmux holds it, and gives what stands on it as text. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { type FSWatcher, watch, writeFileSync } from "node:fs";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import { temporaryDirectory } from "../e2e/server-process.ts";
import { bareEnvironment } from "./setup.ts";

const run = promisify(execFile);
/** Far longer than any screen takes. */
const screenMsMax = 120_000;

export class Terminal {
  readonly #socket: string;
  /** Changes whenever something is written to the screen, after the screen has changed. */
  readonly #written: FSWatcher;
  #changed = Promise.withResolvers<void>();

  private constructor(socket: string, written: string) {
    this.#socket = socket;
    this.#written = watch(written, () => this.#changed.resolve());
  }

  static async open(
    t: TestContext,
    env: Readonly<Record<string, string>>,
    startIn?: string,
  ): Promise<Terminal> {
    const directory = temporaryDirectory();
    const written = `${directory.path}/written`;
    writeFileSync(written, "");
    const terminal = new Terminal(`${directory.path}/tmux.sock`, written);
    const variables = Object.entries({ ...bareEnvironment(directory.path), ...env });
    const pass = variables.flatMap(([name, value]) => ["-e", `${name}=${value}`]);
    const size = ["-x", "110", "-y", "30", "-c", startIn ?? directory.path];
    await terminal.tmux("new-session", "-d", ...size, ...pass, "bash --norc --noprofile");
    await terminal.tmux("pipe-pane", `cat >> '${written}'`);
    t.after(async () => {
      terminal.#written.close();
      await terminal.tmux("kill-server");
      directory.dispose();
    });
    return terminal;
  }

  async tmux(...args: string[]): Promise<string> {
    const { stdout } = await run("tmux", ["-f", "/dev/null", "-S", this.#socket, ...args]);
    return stdout;
  }

  /** Types a line and Enter. */
  async type(line: string): Promise<void> {
    await this.tmux("send-keys", "-l", line);
    await this.tmux("send-keys", "Enter");
  }

  /** What stands on the screen, once it looks like the pattern. */
  async screen(pattern: Pick<RegExp, "test">): Promise<string> {
    let isOver = false;
    const timer = setTimeout(() => {
      isOver = true;
      this.#changed.resolve();
    }, screenMsMax);
    for (;;) {
      this.#changed = Promise.withResolvers();
      const text = await this.tmux("capture-pane", "-p");
      if (pattern.test(text)) {
        clearTimeout(timer);
        return text;
      }
      if (isOver) assert.fail(`the screen never showed ${pattern}: ${text}`);
      await this.#changed.promise;
    }
  }
}
