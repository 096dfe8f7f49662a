/**
 * Changes the number of shards of a data directory that no server uses.
 *
 * New stores are filled beside the old ones, which do not change. When every task, key and count was found
 * in the new stores, old and new stores change places by renames, and the old ones are deleted. A journal
 * records the progress: whenever the process ends, the next run continues from there.
 */
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import { FaultError } from "@codeq/engine";
import type { Config } from "../../config/settings.ts";
import type { MovedEntry, MovedKey, ShardData } from "../../core/backup/shard-data.ts";
import { lockDataDir } from "../open-data-dir.ts";
import {
  endMigration,
  giveUpMigration,
  type Migration,
  mayBeGivenUp,
  migrationFolder,
  readMigration,
  removeLeftovers,
  syncDirectory,
  writeMigration,
} from "./migration-journal.ts";
import {
  isShardFolder,
  NewStores,
  oldStores,
  readShards,
  rootFiles,
  type StoreParts,
  shardFolders,
} from "./migration-stores.ts";
import { verifyMigration } from "./verify-migration.ts";

export interface MigrateParts extends Omit<StoreParts, "lock"> {
  /** Records that cannot be read are put in quarantine, and their tasks are left out. */
  readonly setsAsideDamaged?: boolean;
  readonly onProgress?: (progress: MigrationProgress) => void;
  /** Something was written that a crash does not undo. */
  readonly onStep?: (what: string) => void;
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
  /** An earlier run had begun it. */
  readonly isResumed: boolean;
}

/** Throws a fault that says what to do. The data is as it was, or the next run goes on. */
export async function migrateShards(to: number, parts: MigrateParts): Promise<Migrated> {
  assertData(parts.config);
  const directory = parts.config.dataDir;
  await using lock = await lockDataDir(directory);
  const found = readMigration(directory);
  if (found !== undefined && found.to !== to) throw anotherIsUnderWay(found);
  const begun = found ?? (await begin(to, { ...parts, lock }));
  if (typeof begun === "number") {
    return { from: begun, to, tasks: 0, setAside: 0, isResumed: false };
  }
  const run = new MigrationRun({ ...parts, lock }, begun);
  await run.toEnd();
  const { from, tasks, setAside } = run.migration;
  return { from, to, tasks, setAside, isResumed: found !== undefined };
}

/** Removes what an unfinished change has made; false when there is none. */
export async function abortMigration({ config }: Pick<MigrateParts, "config">): Promise<boolean> {
  assertData(config);
  const directory = config.dataDir;
  await using _ = await lockDataDir(directory);
  const found = readMigration(directory);
  if (found === undefined) {
    removeLeftovers(directory);
    return false;
  }
  if (!mayBeGivenUp(found)) {
    throw new FaultError(
      "format",
      "the new stores are already replacing the old ones, which cannot be undone. " +
        `Run \`codeq shards migrate --to ${found.to}\` to finish the change.`,
    );
  }
  giveUpMigration(directory);
  return true;
}

function assertData({ dataDir, persistenceProvider }: Config): void {
  if (persistenceProvider === "memory") {
    throw new FaultError("format", "persistenceProvider is memory, so there is no data directory");
  }
  if (existsSync(join(dataDir, "kv")) || existsSync(join(dataDir, migrationFolder))) return;
  throw new FaultError(
    "format",
    `there is no data in ${dataDir}; set the data directory with --data-dir`,
  );
}

function anotherIsUnderWay(migration: Migration): FaultError {
  const { to } = migration;
  const undo = mayBeGivenUp(migration) ? ", or cancel it with `codeq shards migrate --abort`" : "";
  return new FaultError(
    "format",
    `a change to ${to} shards is not finished. Run \`codeq shards migrate --to ${to}\` first${undo}.`,
  );
}

/** Looks at what could be in the way before anything is written; a number when there is nothing to do. */
async function begin(to: number, parts: MigrateParts & StoreParts): Promise<Migration | number> {
  const directory = parts.config.dataDir;
  removeLeftovers(directory);
  const from = await readShards(parts);
  if (from === to) return from;
  assertRenamable(directory, from);
  let tasks = 0;
  let sequence = 0;
  for await (const [, data] of oldStores(parts, from)) {
    await assertKnown(data);
    tasks += await data.countTasks();
    sequence = Math.max(sequence, data.sequence);
  }
  const start = { phase: "copy", source: 0, after: "", copied: 0, setAside: 0 } as const;
  const migration: Migration = { from, to, tasks, sequence, ...start };
  writeMigration(directory, migration);
  parts.onStep?.("begun");
  return migration;
}

/** A link or a mounted disk cannot change places with a directory. */
function assertRenamable(directory: string, from: number): void {
  const known = shardFolders(from);
  const stranger = readdirSync(directory).find(
    (name) => isShardFolder(name) && !known.includes(name),
  );
  if (stranger !== undefined) {
    throw new FaultError(
      "format",
      `${join(directory, stranger)} does not belong to the data, which has shards=${from}. ` +
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

async function assertKnown(data: ShardData): Promise<void> {
  const key = await data.unknownKey();
  if (key === undefined) return;
  throw new FaultError("format", `the data has a key that this version does not know: ${key}`);
}

class MigrationRun {
  /** As it was written down last. */
  migration: Migration;
  readonly #parts: MigrateParts & StoreParts;
  readonly #directory: string;

  constructor(parts: MigrateParts & StoreParts, migration: Migration) {
    this.#parts = parts;
    this.#directory = parts.config.dataDir;
    this.migration = migration;
  }

  async toEnd(): Promise<void> {
    if (this.migration.phase === "copy") await this.#copy();
    if (this.migration.phase === "verify") await this.#verify();
    if (this.migration.phase === "moveOut") this.#moveOut();
    if (this.migration.phase === "moveIn") this.#moveIn();
    this.#cleanUp();
  }

  async #copy(): Promise<void> {
    const { from, sequence, to } = this.migration;
    await using targets = await this.#openNew();
    for await (const [number, data] of oldStores(this.#parts, from)) {
      const { source, after } = this.migration;
      if (number < source) continue;
      await this.#copyTasks(data, targets, number === source ? after : "");
      await this.#copyKeys(data, targets);
      await this.#copyEntries(data, targets);
      this.#write({ source: number + 1, after: "" });
    }
    for (const shard of targets.shards) await shard.raiseSequence(sequence);
    if (to > 1) await targets.control.noteShards();
    this.#write({ phase: "verify" });
  }

  async #copyTasks(from: ShardData, targets: NewStores, after: string): Promise<void> {
    for await (const piece of from.tasks(after)) {
      await this.#setAside(targets, piece.damaged);
      const byStore = Map.groupBy(piece.items, ({ task }) => targets.ofTask(task.id));
      await Promise.all([...byStore].map(([store, tasks]) => store.putTasks(tasks)));
      this.#step("tasks written");
      const copied = this.migration.copied + piece.items.length;
      this.#write({ after: piece.after, copied });
      const { tasks: total } = this.migration;
      this.#parts.onProgress?.({ phase: "copy", tasks: copied, total });
    }
  }

  async #copyKeys(from: ShardData, targets: NewStores): Promise<void> {
    for await (const { items, damaged } of from.idempotencyKeys()) {
      await this.#setAside(targets, damaged);
      const byStore = new Map<ShardData, MovedKey[]>();
      for (const key of items) {
        for (const store of targets.ofKey(key)) {
          const keys = byStore.get(store) ?? [];
          keys.push(key);
          byStore.set(store, keys);
        }
      }
      for (const [store, keys] of byStore) await store.putKeys(keys);
      this.#step("keys written");
    }
  }

  async #copyEntries(from: ShardData, targets: NewStores): Promise<void> {
    for await (const { items, damaged } of from.entries()) {
      await this.#setAside(targets, damaged);
      const byStore = Map.groupBy(items, ({ key }) => targets.of(key));
      for (const [store, entries] of byStore) await store.putEntries(entries);
      this.#step("records written");
    }
    for await (const { items, damaged } of from.sharedEntries()) {
      await this.#setAside(targets, damaged);
      for (const store of targets.shards) await store.putMissing(items);
      this.#step("shared records written");
    }
  }

  async #setAside(targets: NewStores, damaged: readonly MovedEntry[]): Promise<void> {
    const [first] = damaged;
    if (first === undefined) return;
    if (this.#parts.setsAsideDamaged !== true) {
      throw new FaultError(
        "corrupt",
        `${first.key} cannot be read. The data is unchanged. Restore a backup, or add ` +
          "--set-aside-damaged to leave out tasks that cannot be read and keep them in quarantine.",
      );
    }
    const byStore = Map.groupBy(damaged, ({ key }) => targets.of(key));
    for (const [store, entries] of byStore) await store.setAside(entries);
  }

  async #verify(): Promise<void> {
    const verified = await this.#compare();
    this.#syncNew();
    this.#write({ phase: "moveOut", ...verified });
  }

  async #compare(): Promise<Pick<Migration, "tasks" | "setAside">> {
    const { tasks: total, from } = this.migration;
    await using targets = await this.#openNew();
    return await verifyMigration(oldStores(this.#parts, from), targets, (tasks) => {
      this.#step("tasks verified");
      this.#parts.onProgress?.({ phase: "verify", tasks, total });
    });
  }

  /** The stores have made their files durable; their directories are, before the old ones go. */
  #syncNew(): void {
    for (const folder of ["", ...shardFolders(this.migration.to)]) {
      for (const inside of ["kv", "log", ""])
        syncDirectory(join(this.#path("new"), folder, inside));
    }
    syncDirectory(this.#path(""));
  }

  #moveOut(): void {
    const old = this.#path("old");
    mkdirSync(old, { recursive: true });
    syncDirectory(this.#path(""));
    for (const name of [...rootFiles, ...shardFolders(this.migration.from)]) {
      this.#rename(join(this.#directory, name), join(old, name));
    }
    this.#write({ phase: "moveIn" }, old);
  }

  #moveIn(): void {
    const fresh = this.#path("new");
    for (const name of [...rootFiles, ...shardFolders(this.migration.to)]) {
      this.#rename(join(fresh, name), join(this.#directory, name));
    }
    this.#write({ phase: "cleanUp" }, fresh);
  }

  #cleanUp(): void {
    for (const name of ["old", "new"]) {
      if (!existsSync(this.#path(name))) continue;
      rmSync(this.#path(name), { recursive: true });
      this.#step(`${name} removed`);
    }
    endMigration(this.#directory);
  }

  /** What an earlier run has moved is not there any more. */
  #rename(from: string, to: string): void {
    if (!existsSync(from)) return;
    renameSync(from, to);
    this.#step(`${from} moved`);
  }

  /** The renames out of or into a folder are durable first. */
  #write(changed: Partial<Migration>, renamed?: string): void {
    if (renamed !== undefined) {
      syncDirectory(renamed);
      syncDirectory(this.#directory);
    }
    this.migration = { ...this.migration, ...changed };
    writeMigration(this.#directory, this.migration);
    this.#step(`${this.migration.phase} written down`);
  }

  #openNew(): Promise<NewStores> {
    return NewStores.open(this.#parts, this.#path("new"), this.migration.to);
  }

  #path(name: string): string {
    return join(this.#directory, migrationFolder, name);
  }

  #step(what: string): void {
    this.#parts.onStep?.(what);
  }
}
