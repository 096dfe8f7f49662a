/**
 * Changes the number of shards of a data directory that no server uses: restores the entries of the old stores into new
 * ones, reads both again and compares them, and replaces the old stores by one rename. Whenever the process ends before
 * the rename, the old stores are the data and the next run starts over; after it, the new stores are.
 */
import { existsSync, lstatSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { FaultError, OpenedParts } from "@codeq/engine";
import type { Config } from "../../config/settings.ts";
import {
  isReplaced,
  isUnsettled,
  replaceStores,
  rootFiles,
  settleStores,
  shardFolders,
} from "../../core/backup/replace-stores.ts";
import {
  countTasks,
  type NewShards,
  type RoutedEntry,
  ShardRoute,
} from "../../core/backup/shard-route.ts";
import { NewStore } from "../../core/backup/store-files.ts";
import { homeOf, shardOf, shardOfKey } from "../../core/shards/shard-of.ts";
import { type OldStoreParts, oldStores, readShards } from "../old-stores.ts";
import { lockDataDir } from "../open-data-dir.ts";

export interface MigrateParts extends Omit<OldStoreParts, "lock"> {
  /** Put records that cannot be read in quarantine, and leave out their tasks. */
  readonly setsAsideDamaged?: boolean;
  /** The size of the files of the new logs; default: 64 MiB. */
  readonly segmentBytes?: number;
  readonly onProgress?: (progress: MigrationProgress) => void;
  /** Data was written to the new directory. */
  readonly onStep?: (what: string) => Promise<void> | void;
}

export interface MigrationProgress {
  readonly phase: "copy" | "verify";
  readonly tasks: number;
  readonly total: number;
}

export interface Migrated {
  readonly from: number;
  readonly to: number;
  readonly tasks: number;
  /** Records that could not be read. */
  readonly setAside: number;
  /** An earlier run had begun the change. */
  readonly isResumed: boolean;
}

/** Throws a fault that says what to do. The data is unchanged then. */
export async function migrateShards(to: number, parts: MigrateParts): Promise<Migrated> {
  assertData(parts.config);
  const directory = parts.config.dataDir;
  await using lock = await lockDataDir(directory);
  const isResumed = isUnsettled(directory);
  const done = settleStores(directory, parts.onStep);
  if (isMigrated(done) && done.to === to) return { ...done, isResumed };
  const old = { ...parts, lock };
  const from = await readShards(old);
  if (from === to) return { from, to, tasks: 0, setAside: 0, isResumed: false };
  assertRenamable(directory, from);
  let total = 0;
  for await (const store of oldStores(old, from)) total += await countTasks(store.kv);
  const nowMs = parts.clock.nowMs();
  const migration: Migration = { ...old, from, to, total, nowMs };
  return await replaceStores(directory, {
    fill: async (folder) => {
      await copy(migration, folder);
      await parts.onStep?.("copied");
      const { tasks, setAside } = await verify(migration, folder);
      return { from, to, tasks, setAside, isResumed };
    },
    replaced: [...rootFiles, ...shardFolders(from)],
    onStep: parts.onStep,
  });
}

/** Removes the new stores of an interrupted run; false when there are none. */
export async function abortMigration({ config }: Pick<MigrateParts, "config">): Promise<boolean> {
  assertData(config);
  const directory = config.dataDir;
  await using _ = await lockDataDir(directory);
  if (isReplaced(directory)) {
    throw new FaultError(
      "format",
      "the new stores are already replacing the old ones, which cannot be undone. " +
        "Start the server with the new number of shards, or run the command with --to to finish the change.",
    );
  }
  const wasBegun = isUnsettled(directory);
  settleStores(directory);
  return wasBegun;
}

function isMigrated(result: unknown): result is Migrated {
  return typeof result === "object" && result !== null && "to" in result;
}

function assertData({ dataDir, persistenceProvider }: Config): void {
  if (persistenceProvider === "memory") {
    throw new FaultError("format", "persistenceProvider is memory, so there is no data directory");
  }
  if (existsSync(join(dataDir, "kv")) || isReplaced(dataDir)) return;
  throw new FaultError(
    "format",
    `there is no data in ${dataDir}; set the data directory with --data-dir`,
  );
}

/** A link or a mounted disk cannot change places with a directory. */
function assertRenamable(directory: string, from: number): void {
  const known = shardFolders(from);
  const foreign = readdirSync(directory).find(
    (name) => /^shard-\d+$/.test(name) && !known.includes(name),
  );
  if (foreign !== undefined) {
    throw new FaultError(
      "format",
      `${join(directory, foreign)} does not belong to the data, which has shards=${from}. ` +
        "Move it to another place.",
    );
  }
  const { dev } = statSync(directory);
  for (const name of [...rootFiles, ...known]) {
    const path = join(directory, name);
    const stats = lstatSync(path, { throwIfNoEntry: false });
    if (stats === undefined || (!stats.isSymbolicLink() && stats.dev === dev)) continue;
    throw new FaultError(
      "format",
      `${path} is a symbolic link or on another disk, so it cannot be replaced. ` +
        "Move it into the data directory first.",
    );
  }
}

/** The old stores, how many shards they get, and how many tasks they have. */
interface Migration extends MigrateParts, OldStoreParts {
  readonly from: number;
  readonly to: number;
  readonly total: number;
  readonly nowMs: number;
}

async function copy(migration: Migration, folder: string): Promise<void> {
  await using opened = new OpenedParts();
  const stores = await openNew(migration, folder, opened);
  await walk(migration, "copy", ([store, key, stored]) => stores[store]?.filler.put(key, stored));
  const shards = migration.to;
  const [control, ...others] = stores;
  await control?.finish({ shards });
  for (const [shard, store] of others.entries()) {
    await store.finish({ shards, shard, of: control?.storeId });
  }
}

/** Both are read from their files. Every entry has to be in its new store, and no other. */
async function verify(migration: Migration, folder: string): Promise<ShardRoute> {
  await using opened = new OpenedParts();
  const stores = await openNew(migration, folder, opened);
  const counts = stores.map(() => 0);
  const route = await walk(migration, "verify", ([store, key, stored]) => {
    counts[store] = (counts[store] ?? 0) + 1;
    if (stores[store]?.holds(key, stored) !== true) throw different(`the record ${key}`);
  });
  for (const [number, store] of stores.entries()) {
    const found = await store.countEntries();
    if (found === counts[number]) continue;
    throw different(`the number of records (${counts[number]} and ${found})`);
  }
  return route;
}

/** The control store first. With one shard it is the only one. */
async function openNew(
  { to, segmentBytes, config }: Migration,
  folder: string,
  opened: OpenedParts,
): Promise<readonly NewStore[]> {
  const options = { segmentBytes, minFreeBytes: config.minFreeDiskBytes };
  const stores: NewStore[] = [];
  for (const name of ["", ...shardFolders(to)]) {
    stores.push(opened.use(await NewStore.open(join(folder, name), options)));
  }
  return stores;
}

/** Takes every entry of the old stores to its new store. */
async function walk(
  migration: Migration,
  phase: MigrationProgress["phase"],
  take: (entry: RoutedEntry) => Promise<void> | void,
): Promise<ShardRoute> {
  const { from, to, total, nowMs, setsAsideDamaged = false, onProgress, onStep } = migration;
  const route = new ShardRoute(newShards(to), { setsAsideDamaged, nowMs });
  let reported = 0;
  for await (const { kv } of oldStores(migration, from)) {
    for await (const entries of route.of(kv)) {
      for (const entry of entries) await take(entry);
      await onStep?.(phase);
      const { tasks } = route;
      if (tasks > reported) onProgress?.({ phase, tasks, total });
      reported = tasks;
    }
  }
  for (const entry of route.derived()) await take(entry);
  return route;
}

function newShards(count: number): NewShards {
  return {
    count,
    ofTask: (id) => shardOf(id, count),
    ofKey: (tenantId, key) => shardOfKey(tenantId, key, count),
    ofUnique: ({ tenantId, queue: command, key: inLane }, isPlaced) => {
      const [key = "", lane] = inLane.split("\0");
      const home = homeOf({ lane, unique: { key }, command, idempotencyKey: "" }, isPlaced);
      return shardOfKey(tenantId, home, count);
    },
  };
}

function different(what: string): FaultError {
  return new FaultError(
    "corrupt",
    `${what} differs between the old and the new stores. The data is unchanged. ` +
      "Run `codeq shards migrate --abort` and keep a copy of the data directory.",
  );
}
