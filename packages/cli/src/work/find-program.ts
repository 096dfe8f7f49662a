/**
 * Finds the program that a command line would start, so that a worker with a wrong program name claims no
 * task.
 */
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";

export interface ProgramSearch {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly directory: string;
}

/** Where the system looks when there is no PATH. */
const pathDefault = "/usr/bin:/bin";

/** The path of the program; undefined when there is none that may be run. */
export function findProgram(
  program: string,
  { env, directory }: ProgramSearch,
): string | undefined {
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
