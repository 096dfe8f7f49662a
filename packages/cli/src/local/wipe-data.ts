/**
 * Empties a data directory, for `--fresh`. It removes only files that look like the data of a server, never
 * while a server uses them, and only after confirmation. The directory itself stays, because it may be a
 * link to another disk.
 */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DataLock, FaultError } from "@codeq/server/data-dir";
import type { Call } from "../call.ts";
import { CliError, usageError } from "../cli-error.ts";

/** A server creates its store first, and no other program has folders with the names of replaced stores. */
const storeFolders = /^(kv|(unfinished|new|old)-stores)$/;
const others = /^(log|lock|witness|store\.json|artifacts|codeq\.pid|shard-\d+)$/;
const isOurs = (name: string): boolean => storeFolders.test(name) || others.test(name);

export async function wipeData(call: Call, directory: string): Promise<void> {
  if (!existsSync(directory)) return;
  const names = readdirSync(directory);
  if (names.length === 0) return;
  const foreign = names.find((name) => !isOurs(name));
  if (foreign !== undefined)
    throw notOurs(`${directory} contains files that are not data of a server (${foreign})`);
  // Other programs have a folder named log as well.
  if (!names.some((name) => storeFolders.test(name)))
    throw notOurs(`${directory} does not look like the data of a server`);
  await checkUnused(directory);
  if (!call.options.has("yes") && !(await agrees(call, `Delete all tasks in ${directory}?`))) {
    throw new CliError("nothing was deleted", { exit: "interrupted", next: "remove --fresh" });
  }
  for (const name of readdirSync(directory).filter(isOurs)) {
    rmSync(join(directory, name), { recursive: true, force: true });
  }
}

function notOurs(what: string): CliError {
  return new CliError(`${what}; nothing was deleted`, {
    exit: "data",
    next: "delete the directory yourself if you are sure, or choose another --data-dir",
  });
}

async function checkUnused(directory: string): Promise<void> {
  try {
    await (await DataLock.take(directory))[Symbol.asyncDispose]();
  } catch (error) {
    const isLocked = error instanceof FaultError && error.code === "locked";
    // Data that cannot be opened is a reason to start with empty data.
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
    throw usageError("--fresh deletes data and needs a terminal to ask", "add --yes");
  errors.write(`${question} [y/N] `);
  for await (const text of input.text()) return /^y(es)?$/i.test(text.trim());
  return false;
}
