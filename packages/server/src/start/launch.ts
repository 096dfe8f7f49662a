/**
 * Starts the server as a child process, with Node settings that were measured to suit it, and represents it
 * until it ends: signals are passed on, and the exit code of the server becomes that of this process.
 * However this process ends, the server shuts down gracefully: a channel between them closes, or npm is seen
 * to be gone. Also runs on the older Node with which a command may have been started.
 */
import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, constants } from "node:os";
import { fileURLToPath } from "node:url";
import { systemClock } from "../core/clock.ts";
import { SignalCopies } from "./stop-requests.ts";

export interface LaunchOptions {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdio: StdioOptions;
  /** The Node to run the server with; default: the one of this process. */
  readonly node?: string;
}

export function launchServer(options: LaunchOptions): ChildProcess {
  const { args, env, stdio, node = process.execPath } = options;
  return spawn(node, [...conditions(), ...nodeArgs, main, ...args], {
    stdio: withChannel(Array.isArray(stdio) ? stdio : [stdio, stdio, stdio]),
    env: { ...nodeEnv(args, env), ...env },
    // In a group of its own it gets a Ctrl-C of the terminal only through this process, once.
    detached: process.platform !== "win32",
  });
}

/** The channel need carry nothing: that it closes tells the server that this process has ended. */
function withChannel<Stream>(stdio: readonly Stream[]): (Stream | "ipc")[] {
  const hasChannel = stdio.some((stream) => stream === "ipc");
  return hasChannel ? [...stdio] : [...stdio, "ipc"];
}

/** The variables of a server with these arguments. */
export function nodeEnv(
  args: readonly string[],
  env: LaunchOptions["env"],
): Record<string, string> {
  return { ...measured, UV_THREADPOOL_SIZE: String(poolThreads(args, env)) };
}

const measured = {
  // With an arena for every thread glibc keeps twice the memory of the store's batches.
  MALLOC_ARENA_MAX: "2",
  // Left to itself glibc keeps what large batches leave behind: 440 MB instead of 341 with payloads
  // of 6 KB, measured with `npm run memory`.
  MALLOC_MMAP_THRESHOLD_: "1048576",
  MALLOC_TRIM_THRESHOLD_: "1048576",
};

const threadsPerShard = 4;
const shardsMax = 64;

/**
 * Syncs of the logs and reads of the stores of all shards share one pool of threads. A shard has two
 * syncs, a flush and reads under way at most; with fewer threads they would wait for each other.
 */
export function poolThreads(args: readonly string[], env: LaunchOptions["env"]): number {
  return threadsPerShard + threadsPerShard * shardsAsked(args, env);
}

/** What only a file says is not known here; more shards than cores make little sense. */
function shardsAsked(args: readonly string[], env: LaunchOptions["env"]): number {
  const flag = args.findLastIndex((each) => each === "--shards" || each.startsWith("--shards="));
  const [, value = args[flag + 1]] = flag < 0 ? [] : (args[flag] ?? "").split("=");
  const asked = Number(flag < 0 ? env["CODEQ_SHARDS"] : value);
  if (asked >= 1) return Math.min(Math.floor(asked), shardsMax);
  const isInFile =
    env["CODEQ_CONFIG_PATH"] !== undefined || args.some((each) => each.startsWith("--config"));
  return isInFile ? Math.min(availableParallelism(), shardsMax) : 1;
}

// A larger young generation takes 100 MB more and is no faster; measured with `npm run bench`.
export const nodeArgs: readonly string[] = ["--enable-source-maps", "--max-semi-space-size=8"];

const main: string = fileURLToPath(import.meta.url).replace(/launch\.(ts|js)$/, "main.$1");

/** Sources find each other by a condition that compiled files do without. */
function conditions(): readonly string[] {
  return main.endsWith(".ts") ? ["--conditions=source"] : [];
}

/** The key-value store has assertions, and a damaged table can fail one while it is compacted. */
const aborted =
  "codeq: the key-value store ended the server (SIGABRT), most likely because of a damaged file. " +
  "Nothing that was acknowledged is lost. Run `codeq doctor` to check the data directory.\n";

/**
 * Launches a server, hands signals on until it has ended, and resolves with its exit code. The first signal asks
 * the server to finish, a second one makes it stop at once. When a signal ended the server, the same
 * one ends this process. What uses the server may end before it: the first signal waits for `before`.
 */
export function standInFor(
  launch: () => ChildProcess,
  env: LaunchOptions["env"],
  before?: () => Promise<void>,
): Promise<number> {
  const copies = new SignalCopies();
  const { after, monotonicMs } = systemClock;
  let isStopping = before === undefined;
  const forward = (signal: NodeJS.Signals): void => {
    if (copies.isCopy(signal, monotonicMs())) return;
    if (isStopping) server.kill(signal);
    else void before?.().then(() => server.kill(signal));
    isStopping = true;
  };
  let hungUpMs = Number.NEGATIVE_INFINITY;
  const handlers = {
    SIGINT: () => forward("SIGINT"),
    SIGTERM: () => forward("SIGTERM"),
    SIGHUP: () => {
      hungUpMs = monotonicMs();
      forward(hasTerminal() ? "SIGTERM" : "SIGHUP");
    },
  };
  // Before the server is started: it may be up, and get a signal to stop, before this process runs again.
  for (const [signal, run] of Object.entries(handlers)) process.on(signal, run);
  const server = launch();
  const stopWatching = watchNpm({
    env,
    after,
    onEnded: () => {
      if (monotonicMs() - hungUpMs > hangUpMs) handlers.SIGTERM();
      else process.stderr.write("codeq: npm ended with its terminal; the server goes on\n");
    },
  });
  return new Promise((resolve, reject) => {
    server.on("error", reject);
    server.on("exit", (code, signal) => {
      stopWatching();
      for (const [name, run] of Object.entries(handlers)) process.off(name, run);
      if (signal === null) {
        resolve(code ?? 1);
        return;
      }
      if (signal === "SIGABRT") process.stderr.write(aborted);
      process.kill(process.pid, signal);
      // The first process of a container does not die of its own signals.
      setImmediate(() => resolve(128 + constants.signals[signal]));
    });
  });
}

/** Processes of one terminal get SIGHUP together; npm is looked at every `lookMs`. */
const hangUpMs = 2_000;
const lookMs = 250;
const shells = /^(sh|ash|dash|bash|zsh|ksh|busybox)$/;

interface NpmWatch {
  /** npm leaves marks in the environment of what it starts. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly after: (delayMs: number, run: () => void) => () => void;
  readonly onEnded: () => void;
}

/**
 * Calls back once npm has ended, if npm started this process; returns how to stop looking. npm does not tell
 * its scripts when it is killed, and a shell is between them. The scripts notice it by their parent: a
 * process whose parent has ended gets another one.
 */
function watchNpm({ env, after, onEnded }: NpmWatch): () => void {
  if (env["npm_lifecycle_event"] === undefined) return () => {};
  const before = parents();
  const look = (): void => {
    if (parents() !== before || !isAlive(process.ppid)) onEnded();
    else cancel = after(lookMs, look);
  };
  let cancel = after(lookMs, look);
  return () => cancel();
}

/**
 * `nohup` takes every terminal away from what it starts. Without one, SIGHUP is the request to read the
 * certificates again.
 */
function hasTerminal(): boolean {
  const { stdin, stdout, stderr } = process;
  return stdin.isTTY || stdout.isTTY || stderr.isTTY;
}

/** Our parent, and when that is the shell of npm, its parent too. */
function parents(): string {
  const { ppid } = process;
  const { name, parent } = statusOf(ppid);
  return shells.test(name) ? `${ppid} ${parent}` : String(ppid);
}

function statusOf(pid: number): { readonly name: string; readonly parent: string } {
  try {
    const text = readFileSync(`/proc/${pid}/status`, "utf8");
    const [, name = ""] = /^Name:\s*(.*)$/m.exec(text) ?? [];
    const [, parent = ""] = /^PPid:\s*(.*)$/m.exec(text) ?? [];
    return { name, parent };
  } catch {
    // There is no /proc here, or the process has just ended, which its number will show.
    return { name: "", parent: "" };
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}
