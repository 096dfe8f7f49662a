/** Runs one command line: finds the command, runs it, and turns an error into a message and an exit code. */
import { Call } from "./call.ts";
import { CliError } from "./cli-error.ts";
import { commandTable } from "./command-table.ts";
import { type ExitName, exitCodes } from "./exit-codes.ts";
import { helpFor } from "./help.ts";
import type { Host } from "./host.ts";
import { parseArguments, wordPositions } from "./parse-arguments.ts";
import { chooseStyle } from "./terminal/style.ts";
import { cliVersion } from "./version.ts";

/** Gives the exit code; throws nothing. */
export async function runCli(argv: readonly string[], host: Host): Promise<number> {
  try {
    const parsed = parseArguments(argv, commandTable);
    if (parsed.kind === "version") {
      host.output.write(`${cliVersion}\n`);
      return exitCodes.ok.code;
    }
    if (parsed.kind === "help") {
      const output = parsed.asked ? host.output : host.errors;
      output.write(helpFor(parsed.about, commandTable));
      return parsed.asked ? exitCodes.ok.code : exitCodes.usage.code;
    }
    return (await parsed.row.run(new Call(host, parsed, commandTable))) ?? exitCodes.ok.code;
  } catch (error) {
    return printError(argv, host, error);
  }
}

function printError(argv: readonly string[], host: Host, error: unknown): number {
  const end = argv.indexOf("--");
  const own = end < 0 ? argv : argv.slice(0, end);
  const known = error instanceof CliError ? error : undefined;
  const exit: ExitName = known?.exit ?? "failed";
  const message = known?.message ?? unexpected(error);
  const { status, next = adviceFor(error), body, serverCode } = known ?? {};
  if (own.includes("--json")) {
    const exitCode = exitCodes[exit].code;
    const report = { code: exit, message, next, status, serverCode, exitCode };
    host.errors.write(`${JSON.stringify({ error: report })}\n`);
    return exitCodes[exit].code;
  }
  const { isTerminal } = host.errors;
  const style = chooseStyle({ isTerminal, env: host.env, refused: own.includes("--no-color") });
  if (isGoCommand(own)) {
    const text = status === undefined ? message : `error (${status}): ${body}`;
    host.errors.write(`${style.red("[ERROR]")} ${text}\n`);
  } else {
    host.errors.write(`${style.red("error:")} ${message}\n`);
  }
  if (next !== undefined) host.errors.write(`  ${style.dim("next:")} ${next}\n`);
  return exitCodes[exit].code;
}

/** An error of the operating system is printed as it is; any other error is a bug, and its stack says where. */
function unexpected(error: unknown): string {
  const { syscall, message, stack } = error as NodeJS.ErrnoException;
  return syscall === undefined ? (stack ?? String(error)) : message;
}

/** Advice about errors of the operating system that a user can mend. */
function adviceFor(error: unknown): string | undefined {
  const { syscall, code } = error as NodeJS.ErrnoException;
  if (syscall === undefined || (code !== "EACCES" && code !== "EPERM" && code !== "EROFS")) {
    return undefined;
  }
  return "the user has no permission; choose another directory, or run as a user with access";
}

/** Existing scripts look for the errors of the Go command line. */
function isGoCommand(argv: readonly string[]): boolean {
  const [first] = wordPositions(argv).map((position) => argv[position]);
  return commandTable.some(({ name, group }) => group === "go" && name.split(" ")[0] === first);
}
