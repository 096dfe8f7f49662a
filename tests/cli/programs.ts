/** Programs that some tests need besides Node, installed from the system's packages when missing. */
import { execFile } from "node:child_process";
import type { TestContext } from "node:test";
import { promisify } from "node:util";

const run = promisify(execFile);

/** False, with the reason told, where the program is missing and cannot be installed. */
export async function ensureProgram(
  t: TestContext,
  name: string,
  packageName: string = name,
): Promise<boolean> {
  const problem = await installProgram(name, packageName);
  if (problem !== undefined) t.skip(problem);
  return problem === undefined;
}

/** Why a program that is missing cannot be installed, if so. */
export async function installProgram(
  name: string,
  packageName: string = name,
): Promise<string | undefined> {
  if (await isThere(name)) return undefined;
  try {
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    // Another step may be installing something, too.
    const options = ["--yes", "--no-install-recommends", "--option=DPkg::Lock::Timeout=120"];
    await run("apt-get", ["install", ...options, packageName], { env });
  } catch (error) {
    return `${name} is not installed, and apt-get cannot do it: ${firstLine(error)}`;
  }
  return (await isThere(name)) ? undefined : `${packageName} was installed without ${name}`;
}

async function isThere(name: string): Promise<boolean> {
  try {
    await run("sh", ["-c", `command -v ${name}`]);
    return true;
  } catch {
    // That is the answer.
    return false;
  }
}

function firstLine(error: unknown): string {
  return String((error as Error).message).split("\n")[0] ?? "";
}
