/**
 * How far a change of the number of shards has come, as a file in the data directory. It is there from
 * before anything else is written until nothing is left to do, and a server does not start beside it.
 *
 *   copy    new stores are being filled; leaves to verify, or is given up
 *   verify  they are compared with the old ones; leaves to moveOut, or is given up
 *   moveOut the old stores are moved aside; leaves to moveIn, and from here on only forward
 *   moveIn  the new stores are moved to their places; leaves to cleanUp
 *   cleanUp the old stores are deleted; leaves with the journal itself
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { FaultError } from "@codeq/engine";

export interface Migration {
  readonly from: number;
  readonly to: number;
  readonly phase: "copy" | "verify" | "moveOut" | "moveIn" | "cleanUp";
  /** In all old stores, and from the verification on in the new ones; and how many were copied. */
  readonly tasks: number;
  readonly copied: number;
  /** The highest sequence number of the old stores. */
  readonly sequence: number;
  /** While copying: the store that is read, and the last task of it that was written. */
  readonly source: number;
  readonly after: string;
  /** Records that cannot be read, once they are counted. */
  readonly setAside: number;
}

export const migrationFolder = "migration";
const givenUpFolder = "migration-given-up";
const fileName = "journal.json";

const pathOf = (directory: string): string => join(directory, migrationFolder, fileName);

/** Undefined when none is under way. */
export function readMigration(directory: string): Migration | undefined {
  const path = pathOf(directory);
  if (!existsSync(path)) return undefined;
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Migration;
  } catch (error) {
    throw new FaultError("corrupt", `${path} cannot be read: ${(error as Error).message}`, error);
  }
}

/** Durable when it returns. The file before stays whole until then. */
export function writeMigration(directory: string, migration: Migration): void {
  try {
    writeFile(directory, migration);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    throw new FaultError(
      "disk_full",
      "the disk has no space left for the journal of the change",
      error,
    );
  }
}

function writeFile(directory: string, migration: Migration): void {
  const folder = join(directory, migrationFolder);
  mkdirSync(folder, { recursive: true });
  const fresh = join(folder, `${fileName}.new`);
  const file = openSync(fresh, "w", 0o640);
  try {
    writeSync(file, JSON.stringify(migration));
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(fresh, pathOf(directory));
  syncDirectory(folder);
  syncDirectory(directory);
}

/** Throws away what was begun. Killed in between, the next run removes what is left. */
export function giveUpMigration(directory: string): void {
  const aside = join(directory, givenUpFolder);
  rmSync(aside, { recursive: true, force: true });
  renameSync(join(directory, migrationFolder), aside);
  syncDirectory(directory);
  rmSync(aside, { recursive: true, force: true });
}

/** What was begun and never got a journal, or was given up. */
export function removeLeftovers(directory: string): void {
  for (const name of [migrationFolder, givenUpFolder]) {
    rmSync(join(directory, name), { recursive: true, force: true });
  }
}

/** The last thing that is done. */
export function endMigration(directory: string): void {
  const folder = join(directory, migrationFolder);
  rmSync(pathOf(directory), { force: true });
  syncDirectory(folder);
  rmSync(folder, { recursive: true, force: true });
  syncDirectory(directory);
}

/** Makes renames in a directory durable. */
export function syncDirectory(directory: string): void {
  const handle = openSync(directory, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** Throws when the number of shards is being changed, with the command that finishes it. */
export function assertNoMigration(directory: string): void {
  const migration = readMigration(directory);
  if (migration === undefined) return;
  const { to } = migration;
  const undo = mayBeGivenUp(migration) ? ", or `codeq shards migrate --abort` to cancel it" : "";
  throw new FaultError(
    "format",
    `the change to ${to} shards of ${directory} is not finished. ` +
      `Run \`codeq shards migrate --to ${to}\` to finish it${undo}.`,
  );
}

/** The old stores are complete and in their places. */
export function mayBeGivenUp({ phase }: Migration): boolean {
  return phase === "copy" || phase === "verify";
}
