/**
 * Programs from PyPI that judge the document of the API and what the server makes of it. They are
 * installed once, into a folder that is kept for later runs.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { toolCache } from "../tool-cache.ts";

const run = promisify(execFile);
const packages = ["schemathesis==4.32.5", "openapi-spec-validator==0.7.2"];
const outputBytesMax = 64 * 1024 * 1024;

export type Program = "schemathesis" | "openapi-spec-validator";

/** The folder of their programs, or why there is none. */
export function pythonTools(): Promise<{ path: string } | { missing: string }> {
  return pythonPackages(packages.join("-"), packages);
}

/** A folder of this name with these packages; the folder of their programs, or why there is none. */
export async function pythonPackages(
  name: string,
  packages: readonly string[],
): Promise<{ path: string } | { missing: string }> {
  const kept = join(toolCache, name);
  const path = join(kept, "bin");
  if (existsSync(kept)) return { path };
  mkdirSync(toolCache, { recursive: true });
  const scratch = mkdtempSync(join(toolCache, "python-"));
  try {
    // A copy of pip and compiling everything would take longer than the rest; Python compiles what it imports.
    await run("python3", ["-m", "venv", "--without-pip", scratch]);
    const pip = ["-m", "pip", "--python", join(scratch, "bin/python"), "install", "--quiet"];
    await run("python3", [...pip, "--no-compile", ...packages]);
    // At once, because several tests may do it at the same time.
    if (!existsSync(kept)) renameSync(scratch, kept);
    return { path };
  } catch {
    // This machine has none, which is no fault of the server.
    return { missing: "Python 3 with venv and pip is not available" };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** What a program printed; throws with it when the program fails. */
export async function runPython(
  program: { readonly path: string; readonly name: Program },
  args: readonly string[],
  cwd: string,
): Promise<string> {
  const { path, name } = program;
  try {
    // The folder was moved after the installation, so the first line of the program names another one.
    const argv = [join(path, name), ...args];
    return (await run(join(path, "python"), argv, { cwd, maxBuffer: outputBytesMax })).stdout;
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    throw new Error(`${name} found something:\n${stdout}${stderr}`, { cause: error });
  }
}
