/** A real terminal: tmux holds it, and gives what stands on it as text. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import { temporaryDirectory } from "../e2e/server-process.ts";
import { bareEnvironment } from "./setup.ts";

const run = promisify(execFile);

export class Terminal {
  readonly #socket: string;

  constructor(socket: string) {
    this.#socket = socket;
  }

  static async open(
    t: TestContext,
    env: Readonly<Record<string, string>>,
    startIn?: string,
  ): Promise<Terminal> {
    const directory = temporaryDirectory();
    const terminal = new Terminal(`${directory.path}/tmux.sock`);
    const variables = Object.entries({ ...bareEnvironment(directory.path), ...env });
    const pass = variables.flatMap(([name, value]) => ["-e", `${name}=${value}`]);
    const size = ["-x", "110", "-y", "30", "-c", startIn ?? directory.path];
    await terminal.tmux("new-session", "-d", ...size, ...pass, "bash --norc --noprofile");
    t.after(async () => {
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

  /** What stands on the screen, once it looks like the pattern. Asking takes a process each time. */
  async screen(pattern: Pick<RegExp, "test">): Promise<string> {
    for (let tries = 0; tries < 1000; tries++) {
      const text = await this.tmux("capture-pane", "-p");
      if (pattern.test(text)) return text;
    }
    return assert.fail(
      `the screen never showed ${pattern}: ${await this.tmux("capture-pane", "-p")}`,
    );
  }
}
