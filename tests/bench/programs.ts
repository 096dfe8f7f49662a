/** Programs that are not part of the repository. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Something that only the one who runs the benchmark can change. */
export class SetupError extends Error {}

/** Undefined when it is not installed. */
export function pathOf(program: string): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  return [...folders, "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/go/bin"]
    .map((folder) => join(folder, program))
    .find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    // It is not there, or not for us: the next folder may have it.
    return false;
  }
}
