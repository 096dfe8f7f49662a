/**
 * Programs from PyPI that judge the document of the API and what the server makes of it. They are
 * installed into a folder for temporary files, which goes with the test.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const packages = ["schemathesis==4.32.5", "openapi-spec-validator"];
const outputBytesMax = 64 * 1024 * 1024;

/** Gives what was printed, or throws with it. */
export type Tool = (
  name: "schemathesis" | "openapi-spec-validator",
  ...args: readonly string[]
) => Promise<string>;

/** Undefined where there is no Python, or where packages cannot be had. */
export async function installTools(directory: string): Promise<Tool | undefined> {
  const bin = join(directory, "venv", "bin");
  try {
    await run("python3", ["-m", "venv", join(directory, "venv")]);
    await run(join(bin, "pip"), ["install", "--quiet", ...packages]);
  } catch {
    // This machine has none, which is no fault of the server.
    return undefined;
  }
  return async (name, ...args) => {
    const options = { cwd: directory, maxBuffer: outputBytesMax };
    try {
      return (await run(join(bin, name), args, options)).stdout;
    } catch (error) {
      const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
      throw new Error(`${name} found something:\n${stdout}${stderr}`, { cause: error });
    }
  };
}
