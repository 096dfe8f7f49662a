/** Creates a data directory from a backup, or verifies a backup by reading it the same way. */
import { existsSync, statSync } from "node:fs";
import { mkdir, readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import {
  type BackupFile,
  FaultError,
  makeDurable,
  openFiles,
  type RestoredStore,
  readEntry,
  restoreStore,
  unseal,
  writeEntries,
} from "@codeq/engine";
import { formatEntry, readKind, type StoreKind } from "../store/format.ts";
import { drawIdentity } from "../store/identity.ts";
import { formatKey } from "../store/keys.ts";
import { storesInFile } from "./backup-container.ts";
import { beginRestore, endRestore } from "./unfinished-restore.ts";
import { backupFiles, storeNames } from "./write-backup.ts";

export interface RestoredBackup {
  readonly stores: readonly {
    readonly store: string;
    readonly entries: number;
    readonly records: number;
  }[];
  /** The last change that is in it. */
  readonly lastMs: number;
}

/** Of a file or a folder. Throws when something is damaged, missing or does not continue what is before it. */
export async function verifyBackup(directory: string): Promise<RestoredBackup> {
  return restoreAll(directory, undefined, Number.MAX_SAFE_INTEGER);
}

/** The data directory has to be new or empty. */
export async function restoreBackup(parts: {
  readonly directory: string;
  readonly dataDir: string;
  /** Changes after this moment are left out. */
  readonly atMs: number;
}): Promise<RestoredBackup> {
  const { directory, atMs } = parts;
  const dataDir = resolve(parts.dataDir);
  if (existsSync(dataDir) && (await readdir(dataDir)).length > 0) {
    throw new FaultError(
      "format",
      `${dataDir} is not empty; restore into a new directory, and start the server on it`,
    );
  }
  // Before anything is written.
  await restoreAll(directory, undefined, atMs);
  await mkdir(dataDir, { recursive: true, mode: 0o750 });
  beginRestore(dataDir);
  const restored = await restoreAll(directory, dataDir, atMs);
  endRestore(dataDir);
  return restored;
}

async function restoreAll(
  path: string,
  dataDir: string | undefined,
  atMs: number,
): Promise<RestoredBackup> {
  const { shards, stores } = await wholeBackup(path);
  const restored: (RestoredStore & { readonly store: string })[] = [];
  let of: number | undefined;
  for (const [store, files] of stores) {
    // A cluster with one shard has what is not a task in a store of its own; a single server has one store.
    const isRoot = store === "control" || shards === 1;
    const folder = isRoot ? "" : store;
    const shard = Number(store.slice("shard-".length));
    const kind = isRoot ? { shards } : { shards, shard, of };
    const target = dataDir === undefined ? undefined : { directory: join(dataDir, folder), kind };
    const done = await restoreOne(files, target, atMs);
    of ??= done.identity;
    restored.push({ ...done, store });
  }
  return {
    stores: restored.map(({ store, entries, records }) => ({ store, entries, records })),
    lastMs: Math.max(...restored.map(({ lastMs }) => lastMs)),
  };
}

/** All stores of the server that was backed up. Stores that it had with more shards, earlier, are left out. */
async function wholeBackup(
  path: string,
): Promise<{ readonly shards: number; readonly stores: Map<string, readonly BackupFile[]> }> {
  const found = await storesIn(path);
  const shards = await shardsOf(found.get("control")?.[0]);
  const stores = new Map<string, readonly BackupFile[]>();
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

async function shardsOf(control: BackupFile | undefined): Promise<number> {
  const sealed = control && (await readEntry(control, formatKey));
  if (control === undefined || sealed === undefined) {
    throw new FaultError("format", `${control?.name} does not say how many shards the server had`);
  }
  return readKind(() => unseal(formatKey, sealed))?.shards ?? 1;
}

/** The store at the root first. */
async function storesIn(path: string): Promise<ReadonlyMap<string, readonly BackupFile[]>> {
  const isFile = existsSync(path) && statSync(path).isFile();
  const stores = isFile ? await storesInFile(path) : await storesInFolder(path);
  if (stores.has("control")) return stores;
  throw new FaultError("format", `there is no backup in ${path}`);
}

async function storesInFolder(directory: string): Promise<Map<string, readonly BackupFile[]>> {
  const stores = new Map<string, readonly BackupFile[]>();
  for (const store of existsSync(directory) ? await storeNames(directory) : []) {
    stores.set(store, await backupFiles(join(directory, store)));
  }
  return stores;
}

async function restoreOne(
  files: readonly BackupFile[],
  target: { readonly directory: string; readonly kind: StoreKind } | undefined,
  atMs: number,
): Promise<RestoredStore & { readonly identity?: number }> {
  if (target === undefined) return restoreStore(files, undefined, atMs);
  const { directory, kind } = target;
  await mkdir(directory, { recursive: true, mode: 0o750 });
  const opened = await openFiles(directory, {
    durability: "fsync",
    monotonicMs: () => performance.now(),
    // Its records are counted from one again, so the next backup of it must not continue this one.
    newIdentity: drawIdentity,
    onRepair: () => {},
  });
  try {
    const restored = await restoreStore(files, opened, atMs);
    // The shard of a cluster does not know to which data directory it belongs now.
    await writeEntries(opened.kv, [formatEntry(kind)]);
    await makeDurable(opened.kv);
    return { ...restored, identity: opened.identity };
  } finally {
    await opened.log.close();
    await opened.kv.close();
  }
}
