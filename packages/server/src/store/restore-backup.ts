/** Creates a data directory from a backup, or verifies a backup by reading it the same way. */
import { createReadStream, existsSync, statSync } from "node:fs";
import { mkdir, readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import {
  type BackupFile,
  FaultError,
  makeDurable,
  openFiles,
  type RestoredStore,
  readHead,
  restoreStore,
  writeEntries,
} from "@codeq/engine";
import { storesInFile } from "./backup-container.ts";
import { formatEntry, type StoreKind } from "./format.ts";
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
  return restoreAll(directory, dataDir, atMs);
}

async function restoreAll(
  path: string,
  dataDir: string | undefined,
  atMs: number,
): Promise<RestoredBackup> {
  const stores = await storesIn(path);
  const shards = Math.max(1, stores.size - 1);
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
    of ??= done.head.identity;
    restored.push({ ...done, store });
  }
  return {
    stores: restored.map(({ store, entries, records }) => ({ store, entries, records })),
    lastMs: Math.max(...restored.map(({ lastMs }) => lastMs)),
  };
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
    stores.set(store, await filesOf(join(directory, store)));
  }
  return stores;
}

async function filesOf(folder: string): Promise<readonly BackupFile[]> {
  return (await backupFiles(folder)).map(({ name }) => {
    const path = join(folder, name);
    return { name: path, read: () => createReadStream(path) as AsyncIterable<Buffer> };
  });
}

async function restoreOne(
  files: readonly BackupFile[],
  target: { readonly directory: string; readonly kind: StoreKind } | undefined,
  atMs: number,
): Promise<RestoredStore> {
  if (target === undefined) return restoreStore(files, undefined, atMs);
  const [first] = files;
  if (first === undefined) throw new FaultError("format", "there is no full backup");
  const { identity } = await readHead(first);
  const { directory, kind } = target;
  await mkdir(directory, { recursive: true, mode: 0o750 });
  const opened = await openFiles(directory, {
    durability: "fsync",
    monotonicMs: () => performance.now(),
    newIdentity: () => identity,
    onRepair: () => {},
  });
  try {
    const restored = await restoreStore(files, opened, atMs);
    // The shard of a cluster does not know to which data directory it belongs now.
    await writeEntries(opened.kv, [formatEntry(kind)]);
    await makeDurable(opened.kv);
    return restored;
  } finally {
    await opened.log.close();
    await opened.kv.close();
  }
}
