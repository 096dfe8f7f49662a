/**
 * Runs a task with a system command: the payload on its standard input, the result from its standard output.
 * The exit code decides: 0 completes the task, 65 (EX_DATAERR) fails it without a retry, every other code
 * retries it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { Writable } from "node:stream";
import type { Clock } from "@codeq/server/command-line";
import { isJson } from "../payload.ts";
import type { RunEnd, RunnableTask, RunTask } from "./do-tasks.ts";

const failedForGood = 65;
/** How long a command may take to end after it was asked to; the client gives up after 5 s. */
const killAfterMs = 4000;
const outputBytesMax = 1024 * 1024;
const reasonChars = 2000;

const isGuarded = process.platform !== "win32";
/** The command begins when the guard knows of it: a worker that is killed before leaves nothing. */
const guarded = ["/bin/sh", "-c", 'read -r go <&3 || exit 1; exec 3<&-; exec "$@"', "sh"];

interface RunCommandOptions {
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly directory: string;
  readonly clock: Clock;
  /** What the command writes on its error output is also shown. */
  readonly show: (text: string) => void;
}

export function runCommand(options: RunCommandOptions): RunTask {
  const guard = new CommandGuard();
  return (task) => new Promise((resolve) => start({ ...options, guard }, task, resolve));
}

function start(
  options: RunCommandOptions & { readonly guard: CommandGuard },
  task: RunnableTask,
  resolve: (end: RunEnd) => void,
): void {
  const { signal } = task;
  const [program = "", ...args] = isGuarded ? [...guarded, ...options.words] : options.words;
  const child = spawn(program, args, {
    cwd: options.directory,
    env: { ...options.env, ...variablesOf(task) },
    stdio: ["pipe", "pipe", "pipe", "pipe"],
    // A Ctrl-C of the terminal is for the worker, which lets the command finish.
    detached: process.platform !== "win32",
  });
  const { pid } = child;
  if (pid !== undefined) options.guard.watch(pid);
  const go = child.stdio[3] as Writable;
  // What could not be started does not read it.
  go.on("error", () => {});
  go.end("go\n");
  const output = new Collected(outputBytesMax);
  const errors = new Collected(reasonChars * 4);
  child.stdout.on("data", (piece: Buffer) => output.add(piece));
  child.stderr.on("data", (piece: Buffer) => {
    errors.add(piece);
    options.show(piece.toString("utf8"));
  });
  // A command that does not read its input is fine.
  child.stdin.on("error", () => {});
  child.stdin.end(task.payloadText);
  let cancelKill = (): void => {};
  const onStop = (): void => {
    signalAll(child, "SIGTERM");
    cancelKill = options.clock.after(killAfterMs, () => {
      signalAll(child, "SIGKILL");
      // A process that left the group of the command may hold these pipes; it is not waited for.
      child.stdout.destroy();
      child.stderr.destroy();
    });
  };
  signal.addEventListener("abort", onStop);
  if (signal.aborted) onStop();
  const end = (how: RunEnd): void => {
    cancelKill();
    if (pid !== undefined) options.guard.ended(pid);
    signal.removeEventListener("abort", onStop);
    resolve(how);
  };
  child.on("error", (error) => {
    end({ as: "retry", reason: `${options.words[0]} cannot be started: ${error.message}` });
  });
  child.on("close", (code, killedBy) => end(endOf({ code, killedBy, output, errors })));
}

/** The signal also reaches the processes that the command has started. */
function signalAll(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(process.platform === "win32" ? child.pid : -child.pid, signal);
  } catch {
    // All of them have ended already.
  }
}

function variablesOf(task: RunnableTask): Record<string, string> {
  return {
    CODEQ_TASK_ID: task.id,
    CODEQ_TASK_COMMAND: task.task,
    CODEQ_TASK_ATTEMPT: String(task.attempt),
    CODEQ_TASK_MAX_ATTEMPTS: String(task.maxAttempts),
  };
}

interface Ended {
  readonly code: number | null;
  readonly killedBy: NodeJS.Signals | null;
  readonly output: Collected;
  readonly errors: Collected;
}

function endOf({ code, killedBy, output, errors }: Ended): RunEnd {
  if (code === 0 && output.isCut) {
    return { as: "failed", error: `the output is longer than ${outputBytesMax} bytes` };
  }
  if (code === 0) return { as: "completed", result: resultOf(output.text.trim()) };
  const how = killedBy === null ? `exit code ${code}` : `ended by ${killedBy}`;
  const said = errors.text.trim().slice(-reasonChars);
  const reason = said === "" ? how : `${how}: ${said}`;
  return code === failedForGood ? { as: "failed", error: reason } : { as: "retry", reason };
}

/** A result is an object; whatever else was written is put into one. */
export function resultOf(text: string): string {
  if (text === "") return "{}";
  if (!isJson(text)) return JSON.stringify({ output: text });
  return text.startsWith("{") ? text : `{"value":${text}}`;
}

/** Text up to a number of bytes; the end of it when there is more. */
class Collected {
  readonly #bytesMax: number;
  #pieces: Buffer[] = [];
  #size = 0;
  isCut = false;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  add(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#size += piece.length;
    if (this.#size <= this.#bytesMax) return;
    this.isCut = true;
    const kept = Buffer.concat(this.#pieces).subarray(-this.#bytesMax);
    this.#pieces = [kept];
    this.#size = kept.length;
  }

  get text(): string {
    return Buffer.concat(this.#pieces).toString("utf8");
  }
}

/** A command that is stopped with its worker gets the same time. */
const killAfterSeconds = 4;

const script = `
groups=
while read -r what group; do
  if [ "$what" = + ]; then
    groups="$groups $group"
  else
    rest=
    for each in $groups; do [ "$each" = "$group" ] || rest="$rest $each"; done
    groups=$rest
  fi
done
[ -z "$groups" ] && exit
for each in $groups; do kill -s TERM -- "-$each"; done
sleep ${killAfterSeconds}
for each in $groups; do kill -s KILL -- "-$each"; done
`;

/**
 * Ends the commands of a worker that was killed. A killed process cannot clean up, so a shell beside it
 * holds the other end of a pipe and knows which process groups are running. When the pipe closes, it
 * asks those groups to end and kills what is left after a while.
 *
 * Assumes a POSIX shell; on Windows commands of a killed worker go on.
 */
class CommandGuard {
  readonly #shell: ChildProcess | undefined;

  constructor() {
    if (process.platform === "win32") return;
    this.#shell = spawn("/bin/sh", ["-c", script], {
      stdio: ["pipe", "ignore", "ignore"],
      // A signal to the group of the worker is not for the guard.
      detached: true,
    });
    // Commands still run without a guard.
    this.#shell.on("error", () => {});
    this.#shell.stdin?.on("error", () => {});
    this.#shell.unref();
    (this.#shell.stdin as { unref?: () => void } | null)?.unref?.();
  }

  /** The command with this process id leads a group that must not outlive the worker. */
  watch(pid: number): void {
    this.#shell?.stdin?.write(`+ ${pid}\n`);
  }

  ended(pid: number): void {
    this.#shell?.stdin?.write(`- ${pid}\n`);
  }
}
