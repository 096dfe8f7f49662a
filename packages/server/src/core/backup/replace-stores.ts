/**
 * Replaces the stores of a data directory as a whole, by one rename. The caller has the lock of the directory.
 *
 *   unfinished-stores/  new stores while they are filled. The old ones are the data; the next run or start removes these.
 *   new-stores/         the same folder, complete and durable. From this rename on, the new stores are the data.
 *   old-stores/         old stores while they are deleted.
 *
 * After the rename, old and new stores only have to be moved, and every move can be repeated. `settleStores` does the
 * moves that are left before anything of the data is opened.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { FaultError } from "@codeq/engine";
import { kindFileName } from "../store/kind-file.ts";

/** The files of the store in the data directory itself. */
export const rootFiles: readonly string[] = ["kv", "log", "witness", kindFileName];
/** The folder with the replicas of a cluster node. */
export const replicasFolder = "replicas";
export const unfinishedFolder = "unfinished-stores";
const newFolder = "new-stores";
const oldFolder = "old-stores";
/** Without this file, the new stores have been moved to their places. */
const noteFile = "replacement.json";
const leftovers = [unfinishedFolder, newFolder, oldFolder];

/** What has to be known to finish after a crash. */
interface Note<Result> {
  /** Names in the data directory that give way. */
  readonly replaced: readonly string[];
  /** The folder that they are moved to. */
  readonly before: string;
  readonly result: Result;
}

export interface Replacing<Result> {
  /** Fills the folder, whose contents become those of the data directory. */
  readonly fill: (folder: string) => Promise<Result>;
  /** Names in the data directory that give way; those that do not exist are ignored. */
  readonly replaced: readonly string[];
  /** The new folder that keeps what gave way; without it, that is deleted. */
  readonly before?: string;
  /** A step was done that a crash does not undo. */
  readonly onStep?: ((what: string) => void) | undefined;
}

/** The folders of shards that are not in the data directory itself. */
export function shardFolders(count: number): readonly string[] {
  return count === 1 ? [] : Array.from({ length: count }, (_, number) => `shard-${number}`);
}

/** Whether an earlier run has left something to be finished or removed. */
export function isUnsettled(directory: string): boolean {
  return leftovers.some((name) => existsSync(join(directory, name)));
}

/** Whether the new stores are complete, so that the old ones do not count any more. */
export function isReplaced(directory: string): boolean {
  return existsSync(join(directory, newFolder, noteFile));
}

/** Throws `disk_full` when there is no space left; the old stores are still the data then. */
export async function replaceStores<Result>(
  directory: string,
  replacing: Replacing<Result>,
): Promise<Result> {
  try {
    return await fillAndReplace(directory, replacing);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    throw new FaultError("disk_full", "the disk has no space left for the new stores", error);
  }
}

async function fillAndReplace<Result>(
  directory: string,
  { fill, replaced, before = oldFolder, onStep = () => {} }: Replacing<Result>,
): Promise<Result> {
  const folder = join(directory, unfinishedFolder);
  if (isReplaced(directory)) throw new Error("what an earlier run has left was not settled");
  removeAll(directory, leftovers);
  mkdirSync(folder, { mode: 0o750 });
  syncPath(directory);
  const result = await fill(folder);
  const there = replaced.filter((name) => existsSync(join(directory, name)));
  const note: Note<Result> = { replaced: there, before, result };
  writeFileSync(join(folder, noteFile), JSON.stringify(note));
  // Everything is durable before it counts.
  for (const path of readdirSync(folder, { recursive: true })) syncPath(join(folder, String(path)));
  syncPath(folder);
  renameSync(folder, join(directory, newFolder));
  syncPath(directory);
  onStep(`${newFolder} complete`);
  finish(directory, onStep);
  return result;
}

/** Finishes or removes what an earlier run has left; returns the result of a run whose stores were complete. */
export function settleStores(
  directory: string,
  onStep: (what: string) => void = () => {},
): unknown {
  const hasData = ["kv", replicasFolder].some((name) => existsSync(join(directory, name)));
  const isDone = hasData || isReplaced(directory);
  if (!isDone && existsSync(join(directory, unfinishedFolder))) {
    throw new FaultError(
      "format",
      `a restore into ${directory} did not finish, so a part of the data is missing. ` +
        "Delete the directory, and run `codeq restore` again.",
    );
  }
  const result = isReplaced(directory) ? finish(directory, onStep) : undefined;
  removeAll(directory, leftovers);
  return result;
}

function finish(directory: string, onStep: (what: string) => void): unknown {
  const folder = join(directory, newFolder);
  const note = JSON.parse(readFileSync(join(folder, noteFile), "utf8")) as Note<unknown>;
  moveAll(note.replaced, { from: directory, to: join(directory, note.before), onStep });
  // The lock in the root belongs to the process that replaces the stores.
  const fresh = readdirSync(folder).filter((name) => name !== noteFile && name !== "lock");
  moveAll(fresh, { from: folder, to: directory, onStep });
  rmSync(join(folder, noteFile));
  syncPath(folder);
  onStep("stores replaced");
  removeAll(directory, leftovers);
  return note.result;
}

/** Names that an interrupted run has moved are left where they are. */
function moveAll(
  names: readonly string[],
  {
    from,
    to,
    onStep,
  }: { readonly from: string; readonly to: string; readonly onStep: (what: string) => void },
): void {
  mkdirSync(to, { recursive: true, mode: 0o750 });
  for (const name of names) {
    if (!existsSync(join(from, name)) || existsSync(join(to, name))) continue;
    renameSync(join(from, name), join(to, name));
    onStep(`${join(from, name)} moved`);
  }
  syncPath(from);
  syncPath(to);
}

function removeAll(directory: string, names: readonly string[]): void {
  for (const name of names) rmSync(join(directory, name), { recursive: true, force: true });
}

/** Makes a file, or the names in a directory, durable. */
export function syncPath(path: string): void {
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
