/** A real server process, and commands that talk to it: inside the test, or as processes of their own. */
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { CliWorld, type CliWorldOptions } from "../../packages/cli/test/cli-world.ts";
import {
  Child,
  root,
  type ServerOptions,
  type ServerProcess,
  startServer,
  temporaryDirectory,
} from "../e2e/server-process.ts";

export const cliMain: string = join(root, "packages/cli/src/main.ts");

export interface CliServer {
  readonly server: ServerProcess;
  readonly dataDir: string;
  /** Commands that talk to the server, each world with a directory and a home of its own. */
  world(options?: CliWorldOptions): CliWorld;
}

export async function setup(
  t: TestContext,
  options: Partial<ServerOptions> = {},
): Promise<CliServer> {
  const directory = temporaryDirectory();
  const dataDir = join(directory.path, "data");
  const server = await startServer({ dataDir, ...options });
  t.after(async () => {
    await server.kill();
    directory.dispose();
  });
  return {
    server,
    dataDir,
    world: (worldOptions = {}) => {
      const env = { CODEQ_BASE_URL: server.url, ...worldOptions.env };
      const world = new CliWorld({ ...worldOptions, env });
      t.after(() => world[Symbol.dispose]());
      return world;
    },
  };
}

export interface CommandOptions {
  readonly directory: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: "ignore" | "pipe";
}

/** The command as a process, from the sources, with an environment that holds only what is given. */
export function startCommand(argv: readonly string[], options: CommandOptions): Child {
  return new Child(spawnCommand(argv, options));
}

function spawnCommand(argv: readonly string[], options: CommandOptions): ChildProcess {
  const { directory, env = {}, input = "ignore" } = options;
  return spawn(process.execPath, ["--conditions=source", cliMain, ...argv], {
    cwd: directory,
    env: { ...bareEnvironment(directory), ...env },
    stdio: [input, "pipe", "pipe"],
  });
}

export function bareEnvironment(home: string): Record<string, string> {
  return {
    PATH: process.env["PATH"] ?? "",
    HOME: home,
    // Starting from source takes half the time when stripped and compiled code is kept.
    NODE_COMPILE_CACHE: join(root, "node_modules/.cache/compile"),
  };
}

/** Resolves when so many feeds are open. */
export async function openFeeds(server: Pick<ServerProcess, "url">, count: number): Promise<void> {
  for (;;) {
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    if (metrics.includes(`codeq_feeds_open ${count}\n`)) return;
  }
}

/** What a command printed, read as JSON lines. */
export function jsonLines(text: string): Record<string, unknown>[] {
  const lines = text.trim().split("\n");
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line));
}
