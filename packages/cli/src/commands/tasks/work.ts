/** `work`: runs the tasks of a queue with a command or a module, until it is stopped. */

import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { CodeqError, codeq } from "@codeq/client";
import { errors, limits } from "@codeq/server/command-line";
import { type ApiClient, otherToken } from "../../api/api-client.ts";
import type { Call } from "../../call.ts";
import { CliError, type CliErrorOptions, usageError } from "../../cli-error.ts";
import { checkCommand } from "../../payload.ts";
import { duration, timeOfDay } from "../../terminal/units.ts";
import { doTasks, type RunTask, type WorkEvent } from "../../work/do-tasks.ts";
import { runCommand } from "../../work/run-command.ts";
import { runModule } from "../../work/run-module.ts";

const leaseMsDefault = 60_000;
const graceMsDefault = 10_000;
const concurrencyMax = 1000;
/** How a task ended, in the words of the glossary; `--json` has the words of the wire. */
const endWords: Readonly<Record<string, string>> = { requeued: "retried", dlq: "dead letter" };

export async function run(call: Call): Promise<void> {
  const { options, host } = call;
  const commands = call
    .word(0)
    .split(",")
    .map((name) => checkCommand(name.trim()));
  const runTask = await runnerOf(call);
  const leaseMs = options.durationMs("lease") ?? leaseMsDefault;
  const { leaseSecondsMin, leaseSecondsMax } = limits;
  if (leaseMs < leaseSecondsMin * 1000 || leaseMs > leaseSecondsMax * 1000) {
    throw usageError("--lease is from 1s to 24h");
  }
  const api = await call.api();
  const { urls } = api.connection;
  const url = urls.join(", ");
  await using client = codeq({
    url: urls,
    token: api.token("worker").value,
    tls: api.connection.tls,
  });
  const concurrency = options.wholeNumber("concurrency", { min: 1, max: concurrencyMax }) ?? 1;
  const graceMs = options.durationMs("grace") ?? graceMsDefault;
  const tasksMax = options.wholeNumber("max", { min: 1, max: 1e9 });
  call.note(`waiting for tasks of ${commands.join(", ")} at ${url}; press Ctrl-C to stop`);
  try {
    const { completed, others } = await doTasks({
      client,
      commands,
      leaseMs,
      concurrency,
      graceMs,
      tasksMax,
      run: runTask,
      clock: host.clock,
      stopped: host.stopped(),
      report: (event) => report(call, event),
    });
    call.note(`${completed} completed, ${others} not`);
  } catch (error) {
    throw error instanceof CodeqError ? workerError(error, api) : error;
  }
}

async function runnerOf(call: Call): Promise<RunTask> {
  const { host, options, behind } = call;
  const module = options.text("module");
  if (module !== undefined && behind.length > 0) {
    throw usageError("pass a program after -- or --module <file>, not both");
  }
  if (module === undefined && behind.length === 0) {
    throw usageError(
      "nothing to run was given: pass a program after --, or --module <file>",
      "codeq work hello -- cat",
    );
  }
  if (module !== undefined) return runModule(module, host.directory);
  const [program = ""] = behind;
  if (findProgram(program, host) === undefined) {
    throw usageError(
      `the program ${program} was not found or is not executable; no task was claimed`,
      "pass its path, or a name that is in PATH",
    );
  }
  return runCommand({
    words: behind,
    env: host.env,
    directory: host.directory,
    clock: host.clock,
    show: (text) => host.errors.write(text),
  });
}

function report(call: Call, event: WorkEvent): void {
  const { style, host } = call;
  const nowMs = host.clock.nowMs();
  if (call.json) {
    const { task, ...others } = { task: undefined, ...event };
    const { id, task: command, attempt } = task ?? {};
    call.printJson({ time: new Date(nowMs).toISOString(), ...others, id, command, attempt });
    return;
  }
  const at = style.dim(timeOfDay(nowMs));
  switch (event.event) {
    case "claimed":
      return;
    case "ended": {
      const ended = endWords[event.as] ?? event.as;
      const as = event.as === "completed" ? style.green(ended) : style.yellow(ended);
      const why = event.why === undefined ? "" : `: ${firstLine(event.why)}`;
      const { id, task } = event.task;
      call.print(`${at}  ${as}  ${task}  ${id}  ${duration(event.tookMs)}${why}`);
      return;
    }
    case "lost":
      call.print(`${at}  ${style.red("lost")}  ${event.task.id}: ${event.why}`);
      return;
    case "trouble":
      call.note(`${at}  ${event.why}`);
      return;
    case "connected":
      call.note(`${at}  connected`);
      return;
    case "stopping":
      call.note(
        `${at}  stopping when ${event.running} running ${event.running === 1 ? "task has" : "tasks have"} ended; press Ctrl-C again to stop immediately`,
      );
  }
}

function firstLine(text: string): string {
  return text.trim().split("\n")[0] ?? "";
}

interface ProgramSearch {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly directory: string;
}

/** Where the system looks when there is no PATH. */
const pathDefault = "/usr/bin:/bin";

/**
 * The path of the program that a command line would start, so that a worker with a wrong program name claims no
 * task; undefined when there is no such program that may be run.
 */
function findProgram(program: string, { env, directory }: ProgramSearch): string | undefined {
  const isWindows = process.platform === "win32";
  const isPath = program.includes("/") || (isWindows && program.includes("\\"));
  const folders = isPath ? [""] : (env["PATH"] ?? env["Path"] ?? pathDefault).split(delimiter);
  const endings = isWindows ? ["", ...(env["PATHEXT"] ?? ".EXE;.CMD").split(";")] : [""];
  for (const folder of folders) {
    for (const ending of endings) {
      const path = resolve(directory, join(folder, program + ending));
      if (isProgram(path)) return path;
    }
  }
  return undefined;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    // It is not there, or not for this user.
    return false;
  }
}

/** Turns the error that ends a worker of the client library into a message of this command line. */
function workerError(error: CodeqError, api: ApiClient): CliError {
  const url = api.connection.baseUrl.value;
  const { code, message } = error;
  const status = Object.hasOwn(errors, code) ? errors[code as keyof typeof errors].http : undefined;
  const at = { status, cause: error, ...(status === undefined ? {} : { serverCode: code }) };
  const denied = (): CliErrorOptions => ({
    ...at,
    exit: "denied",
    next: otherToken(api.token("worker")),
  });
  if (code === "invalid_option") return new CliError(message, { ...at, exit: "usage" });
  if (status === 401 || status === 403 || code === "unauthenticated") {
    return new CliError(`${url} refused: ${message}`, denied());
  }
  if (code === "permission_denied") return new CliError(`${url} refused: ${message}`, denied());
  if (error.retryable) return new CliError(`${url}: ${message}`, { ...at, exit: "unreachable" });
  return new CliError(`${url} refused: ${message}`, { ...at, exit: "refused" });
}
