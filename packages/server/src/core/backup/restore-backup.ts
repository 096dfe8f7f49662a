/** Creates a data directory from a backup, or verifies a backup by reading it the same way. */
import { existsSync } from "node:fs";
import { mkdir, readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import {
  DataLock,
  FaultError,
  type ImageFile,
  type RestoredStore,
  readEntry,
  restoreStore,
  unseal,
} from "@codeq/engine";
import { readKind, type StoreKind } from "../store/format.ts";
import { formatKey } from "../store/keys.ts";
import { storesIn } from "./backups.ts";
import { replaceStores, unfinishedFolder } from "./replace-stores.ts";
import { NewStore } from "./store-files.ts";

export interface RestoredBackup {
  readonly stores: readonly {
    readonly store: string;
    readonly entries: number;
    readonly records: number;
  }[];
  /** The time of the last change in the backup. */
  readonly lastMs: number;
}

/** Verifies a file or a folder. Throws when a part is damaged, missing or does not continue the part before it. */
export async function verifyBackup(directory: string): Promise<RestoredBackup> {
  return restoreAll(directory, undefined, Number.MAX_SAFE_INTEGER);
}

/** The data directory has to be new or empty, except for what an unfinished restore left. */
export async function restoreBackup(parts: {
  readonly directory: string;
  readonly dataDir: string;
  /** Changes after this moment are left out. */
  readonly atMs: number;
}): Promise<RestoredBackup> {
  const { directory, atMs } = parts;
  const dataDir = resolve(parts.dataDir);
  const found = existsSync(dataDir) ? await readdir(dataDir) : [];
  if (found.some((name) => name !== unfinishedFolder && name !== "lock")) {
    throw new FaultError(
      "format",
      `${dataDir} is not empty; restore into a new directory, and start the server on it`,
    );
  }
  // Reads the whole backup before anything is written.
  await restoreAll(directory, undefined, atMs);
  await mkdir(dataDir, { recursive: true, mode: 0o750 });
  await using _ = await DataLock.take(dataDir);
  return await replaceStores(dataDir, {
    fill: (folder) => restoreAll(directory, folder, atMs),
    replaced: [],
  });
}

async function restoreAll(
  path: string,
  into: string | undefined,
  atMs: number,
): Promise<RestoredBackup> {
  const { shards, stores } = await wholeBackup(path);
  const restored: (RestoredStore & { readonly store: string })[] = [];
  let of: number | undefined;
  for (const [store, files] of stores) {
    // A cluster with one shard has a control store of its own; a single server has one store.
    const isRoot = store === "control" || shards === 1;
    const shard = Number(store.slice("shard-".length));
    const kind = isRoot ? { shards } : { shards, shard, of };
    const directory = into === undefined ? undefined : join(into, isRoot ? "" : store);
    const done = await restoreOne(files, { directory, kind }, atMs);
    of ??= done.storeId;
    restored.push({ ...done, store });
  }
  return {
    stores: restored.map(({ store, entries, records }) => ({ store, entries, records })),
    lastMs: Math.max(...restored.map(({ lastMs }) => lastMs)),
  };
}

/** All stores of the server that was backed up. Stores from when it had more shards are left out. */
async function wholeBackup(
  path: string,
): Promise<{ readonly shards: number; readonly stores: Map<string, readonly ImageFile[]> }> {
  const found = await storesIn(path);
  const shards = await shardsOf(found.get("control")?.[0]);
  const stores = new Map<string, readonly ImageFile[]>();
  for (const name of ["control", ...Array.from({ length: shards }, (_, n) => `shard-${n}`)]) {
    const files = found.get(name);
    if (files !== undefined) stores.set(name, files);
    else if (shards > 1) {
      const problem = `${path} has no backup of ${name}, one of the ${shards} shards`;
      throw new FaultError("format", `${problem}; use another backup, or the whole of this one`);
    }
  }
  return { shards, stores };
}

async function shardsOf(control: ImageFile | undefined): Promise<number> {
  const sealed = control && (await readEntry(control, formatKey));
  if (control === undefined || sealed === undefined) {
    throw new FaultError("format", `${control?.name} does not say how many shards the server had`);
  }
  return readKind(() => unseal(formatKey, sealed))?.shards ?? 1;
}

async function restoreOne(
  files: readonly ImageFile[],
  { directory, kind }: { readonly directory: string | undefined; readonly kind: StoreKind },
  atMs: number,
): Promise<RestoredStore & { readonly storeId?: number }> {
  if (directory === undefined) return restoreStore(files, undefined, atMs);
  await using store = await NewStore.open(directory);
  const restored = await restoreStore(files, store, atMs);
  // The shard of a cluster does not know which data directory it belongs to now.
  await store.finish(kind);
  return { ...restored, storeId: store.storeId };
}
