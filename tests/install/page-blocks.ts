/**
 * Runs the blocks of the install page with one mark, in order, in a folder that has the checkout as
 * `codeq`. `/tmp/codeq` in a block is a folder of the test.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { root } from "../e2e/server-process.ts";
import { blocksOf, type Mark } from "../guides/marks.ts";

const run = promisify(execFile);
const standIns = join(import.meta.dirname, "stand-ins");
const page = "docs/guide/install.md";

/** What each block printed on its standard output. */
export async function runBlocks(
  mark: Mark,
  directory: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<string[]> {
  const temporary = join(directory, "temporary");
  mkdirSync(temporary, { recursive: true });
  if (!existsSync(join(directory, "codeq"))) symlinkSync(root, join(directory, "codeq"));
  const real = `${dirname(process.execPath)}:${env["PATH"]}`;
  const given = { ...env, PATH: `${standIns}:${real}`, INSTALL_PATH: real };
  const printed: string[] = [];
  for (const { text } of blocksOf(mark, page)) {
    const script = text.replaceAll("/tmp/codeq", temporary);
    const options = { cwd: directory, env: given, maxBuffer: 16 * 1024 * 1024 };
    const { stdout } = await run("bash", ["-euo", "pipefail", "-c", script], options);
    printed.push(stdout);
  }
  return printed;
}
