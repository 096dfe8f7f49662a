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
  if (await isThere(name)) return true;
  try {
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    await run("apt-get", ["install", "--yes", "--no-install-recommends", packageName], { env });
  } catch (error) {
    t.skip(`${name} is not installed, and apt-get cannot do it: ${firstLine(error)}`);
    return false;
  }
  return isThere(name);
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
