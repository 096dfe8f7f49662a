/**
 * Removes a data directory, for `--fresh`. Only what looks like the data of a server is removed, never
 * while a server has it open, and not before somebody agreed.
 */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { FaultError, LevelKv } from "@codeq/server/tooling/offline";
import type { Call } from "../call.ts";
import { CliError, usageError } from "../cli-error.ts";

const ours = new Set(["kv", "log", "artifacts", "codeq.pid"]);

export async function wipeData(call: Call, directory: string): Promise<void> {
  if (!existsSync(directory)) return;
  const foreign = readdirSync(directory).filter((name) => !ours.has(name));
  if (foreign.length > 0) {
    throw new CliError(`${directory} holds more than data (${foreign[0]}); it was left alone`, {
      exit: "data",
      next: "remove it by hand if you are sure, or choose another --data-dir",
    });
  }
  await checkUnused(directory);
  if (!call.options.has("yes") && !(await agrees(call, `Remove all tasks in ${directory}?`))) {
    throw new CliError("nothing was removed", { exit: "interrupted", next: "leave out --fresh" });
  }
  rmSync(directory, { recursive: true });
}

async function checkUnused(directory: string): Promise<void> {
  const path = join(directory, "kv");
  if (!existsSync(path)) return;
  try {
    await (await LevelKv.open(path)).close();
  } catch (error) {
    const isLocked = error instanceof FaultError && error.code === "locked";
    // Data that cannot be opened is a reason to begin anew.
    if (!isLocked) return;
    throw new CliError(`${directory} is in use by a server`, {
      exit: "locked",
      next: "stop that server first",
    });
  }
}

async function agrees(call: Call, question: string): Promise<boolean> {
  const { input, errors } = call.host;
  if (!input.isTerminal)
    throw usageError("--fresh removes data and nobody can be asked", "add --yes");
  errors.write(`${question} [y/N] `);
  for await (const text of input.text()) return /^y(es)?$/i.test(text.trim());
  return false;
}
