/**
 * A note beside the files of a store that says which store it is. The store contains the same information;
 * the note can be read before any file of the store is opened, so that a refused start touches nothing. A
 * note that is missing or cannot be read has no effect.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkKind, type StoreKind } from "./format.ts";

export const kindFileName = "store.json";

export interface NotedKind extends StoreKind {
  /** The id of the store. */
  readonly identity: number | undefined;
}

export function readKindFile(directory: string): NotedKind | undefined {
  try {
    const found = JSON.parse(readFileSync(join(directory, kindFileName), "utf8")) as NotedKind;
    return Number.isInteger(found.shards) ? found : undefined;
  } catch {
    // The store has the same information.
    return undefined;
  }
}

/** Called when the store was opened and checked. */
export function writeKindFile(directory: string, kind: NotedKind): void {
  const { shards, shard, of, identity } = kind;
  const text = JSON.stringify({ shards, shard, of, identity });
  if (JSON.stringify(readKindFile(directory)) === text) return;
  try {
    writeFileSync(join(directory, kindFileName), text);
  } catch {
    // The disk may be full; the store has the same information.
  }
}

/** Throws when the note names another store. */
export function checkKindFile(directory: string, kind: StoreKind): void {
  const found = readKindFile(directory);
  if (found !== undefined) checkKind(found, kind);
}
