/**
 * Starts the server as a process of its own, with the settings of Node that were measured to suit it,
 * and stands in for it until it ends: signals are handed on, and its end becomes ours. Also runs on
 * the older Node that a person may have started a command with.
 */
import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

export interface LaunchOptions {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdio: StdioOptions;
  /** The Node to run it with; the one of this process unless told. */
  readonly node?: string;
}

export function launchServer(options: LaunchOptions): ChildProcess {
  const { args, env, stdio, node = process.execPath } = options;
  return spawn(node, [...conditions(), ...nodeArgs, main, ...args], {
    stdio,
    env: { ...measured, ...env },
    // In a group of its own it gets a Ctrl-C of the terminal only through this process, once.
    detached: process.platform !== "win32",
  });
}

const measured = {
  // Syncs of the log and reads of the store share this pool; four threads would make them queue.
  UV_THREADPOOL_SIZE: "8",
  // With an arena for every thread glibc keeps twice the memory of the store's batches.
  MALLOC_ARENA_MAX: "2",
};

// A larger young generation takes 100 MB more and is no faster; measured with `npm run bench`.
const nodeArgs: readonly string[] = ["--enable-source-maps", "--max-semi-space-size=8"];

const main: string = fileURLToPath(import.meta.url).replace(/launch\.(ts|js)$/, "main.$1");

/** Sources find each other by a condition that compiled files do without. */
function conditions(): readonly string[] {
  return main.endsWith(".ts") ? ["--conditions=source"] : [];
}

/** Copies of one signal arrive together: from the terminal, and again from npm or systemd. */
export const sameSignalMs = 500;

/**
 * Hands signals on until the server has ended, and resolves with its exit code. The first signal asks
 * the server to finish, a second one makes it stop at once. When a signal ended the server, the same
 * one ends this process.
 */
export function standInFor(server: ChildProcess): Promise<number> {
  let lastSignalAt = Number.NEGATIVE_INFINITY;
  const forward = (signal: NodeJS.Signals): void => {
    const now = performance.now();
    if (now - lastSignalAt < sameSignalMs) return;
    lastSignalAt = now;
    server.kill(signal);
  };
  const onInterrupt = (): void => forward("SIGINT");
  const onTerminate = (): void => forward("SIGTERM");
  // Who has a terminal loses it; who has none is asked to read its certificates again.
  const onHangUp = (): void => forward(process.stdin.isTTY ? "SIGTERM" : "SIGHUP");
  process.on("SIGINT", onInterrupt);
  process.on("SIGTERM", onTerminate);
  process.on("SIGHUP", onHangUp);
  return new Promise((resolve, reject) => {
    server.on("error", reject);
    server.on("exit", (code, signal) => {
      process.off("SIGINT", onInterrupt);
      process.off("SIGTERM", onTerminate);
      process.off("SIGHUP", onHangUp);
      if (signal === null) resolve(code ?? 1);
      else process.kill(process.pid, signal);
    });
  });
}
