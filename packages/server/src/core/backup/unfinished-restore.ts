/** Marks a data directory while a restore fills it, so that no server starts on a part of the data. */
import { closeSync, existsSync, fsyncSync, openSync, rmSync } from "node:fs";
import { join } from "node:path";
import { FaultError } from "@codeq/engine";

const markOf = (dataDir: string): string => join(dataDir, "restore-unfinished");

export function beginRestore(dataDir: string): void {
  closeSync(openSync(markOf(dataDir), "wx", 0o640));
  sync(dataDir);
}

export function endRestore(dataDir: string): void {
  rmSync(markOf(dataDir));
  sync(dataDir);
}

export function assertRestored(dataDir: string): void {
  if (!existsSync(markOf(dataDir))) return;
  throw new FaultError(
    "format",
    `a restore into ${dataDir} did not finish, so a part of the data is missing. ` +
      "Delete the directory, and run `codeq restore` again.",
  );
}

function sync(directory: string): void {
  const file = openSync(directory, "r");
  fsyncSync(file);
  closeSync(file);
}
