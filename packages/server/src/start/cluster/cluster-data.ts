/**
 * Turns the data directory of a server alone into that of the first node of a cluster, and back. No server has
 * it open meanwhile. New stores are filled beside the old ones, which stay as they are and are then moved into
 * a folder of their own; a run that was interrupted is done again, or goes on with the moves.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { FaultError } from "@codeq/engine";
import type { Config } from "../../config/settings.ts";
import { makeReplica, makeStore, type StorePart } from "../../core/backup/store-copies.ts";
import type { Clock } from "../../core/clock.ts";
import { createLogger } from "../../telemetry/logger.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import {
  type HeldLock,
  lockDataDir,
  openDataDir,
  replicasFolder,
  type Storage,
} from "../open-data-dir.ts";
import { assertNoMigration, syncDirectory } from "../shards/migration-journal.ts";
import { rootFiles, shardFolders } from "../shards/migration-stores.ts";
import { openStore } from "../shards/open-shard.ts";

export interface ClusterDataParts {
  readonly config: Config;
  readonly clock: Clock;
}

export interface ConvertedData {
  readonly shards: number;
  readonly entries: number;
  /** The folder with the files as they were. */
  readonly before: string;
}

/** What a node that was a server alone begins its logs with. */
interface Origin {
  readonly logs: Readonly<Record<string, number>>;
  /** The folder for the files of the server alone, and whether they are there. */
  readonly before: string;
  readonly isMoved: boolean;
}

interface Leaving extends ConvertedData {
  readonly isComplete: true;
}

const originFile = "origin.json";
const leavingFile = "leaving.json";
const newReplicas = "replicas.new";
const newStores = "alone.new";
const beforeInit = "before-cluster";
const beforeLeave = "before-alone";

/** Which logs this directory begins, by the names of their replicas. */
export function logsToBegin(config: Config): Origin["logs"] {
  return readOrigin(resolve(config.dataDir))?.logs ?? {};
}

/** Throws a fault that says what to do. The data is as it was, or the next run goes on. */
export async function initCluster(parts: ClusterDataParts): Promise<ConvertedData> {
  const directory = resolve(parts.config.dataDir);
  await using lock = await lockDataDir(directory);
  assertNoMigration(directory);
  const replicas = join(directory, replicasFolder);
  let entries = 0;
  if (!existsSync(replicas)) {
    if (!existsSync(join(directory, "kv"))) throw nothingThere(directory);
    const made = join(directory, newReplicas);
    rmSync(made, { recursive: true, force: true });
    entries = await fillReplicas(parts, made, lock);
    renameSync(made, replicas);
    syncDirectory(directory);
  }
  const origin = readOrigin(directory);
  if (origin === undefined || origin.isMoved) throw alreadyNode(directory);
  const { before } = origin;
  moveInto(before, directory, [...rootFiles, ...shardFolders(parts.config.shards)]);
  writeFileSync(join(replicas, originFile), JSON.stringify({ ...origin, isMoved: true }));
  syncDirectory(replicas);
  return { shards: parts.config.shards, entries, before };
}

async function fillReplicas(
  parts: ClusterDataParts,
  made: string,
  lock: HeldLock,
): Promise<number> {
  const { shards, dataDir } = parts.config;
  const logs: Record<string, number> = {};
  let entries = 0;
  const fill = async (name: string, kv: Storage["kv"], part: StorePart): Promise<void> => {
    const copied = await makeReplica(join(made, name), kv, part);
    logs[name] = copied.identity;
    entries += copied.entries;
  };
  let of: number | undefined;
  {
    await using root = await openAlone(parts, dataDir, { lock });
    of = root.identity;
    await fill("control", root.kv, "control");
    if (shards === 1) await fill("shard-0", root.kv, "tasks");
  }
  for (const [number, folder] of shardFolders(shards).entries()) {
    await using shard = await openAlone(parts, join(dataDir, folder), { shard: { number, of } });
    await fill(folder, shard.kv, "all");
  }
  const before = freeName(resolve(dataDir), beforeInit);
  const origin: Origin = { logs, before, isMoved: false };
  writeFileSync(join(made, originFile), JSON.stringify(origin));
  syncDirectory(made);
  return entries;
}

/** Throws a fault that says what to do. The data is as it was, or the next run goes on. */
export async function leaveCluster(parts: ClusterDataParts): Promise<ConvertedData> {
  const directory = resolve(parts.config.dataDir);
  await using _lock = await lockDataDir(directory);
  const journal = join(directory, leavingFile);
  const made = join(directory, newStores);
  if (!existsSync(journal)) {
    if (!existsSync(join(directory, replicasFolder))) throw noNode(directory);
    rmSync(made, { recursive: true, force: true });
    const entries = await fillStores(parts.config, made);
    const before = freeName(directory, beforeLeave);
    const leaving: Leaving = { shards: parts.config.shards, entries, before, isComplete: true };
    writeFileSync(journal, JSON.stringify(leaving));
    syncDirectory(directory);
  }
  const { shards, entries, before } = JSON.parse(readFileSync(journal, "utf8")) as Leaving;
  moveInto(before, directory, [replicasFolder, ...rootFiles]);
  for (const name of [...rootFiles, ...shardFolders(shards)]) {
    if (existsSync(join(made, name))) renameSync(join(made, name), join(directory, name));
  }
  syncDirectory(directory);
  rmSync(made, { recursive: true, force: true });
  rmSync(journal);
  return { shards, entries, before };
}

async function fillStores({ dataDir, shards }: Config, made: string): Promise<number> {
  const replica = (name: string): string => join(resolve(dataDir), replicasFolder, name);
  const ofRoot = shards === 1 ? ["control", "shard-0"] : ["control"];
  const root = await makeStore(made, ofRoot.map(replica), { shards });
  let { entries } = root;
  for (const [shard, folder] of shardFolders(shards).entries()) {
    const kind = { shards, shard, of: root.identity };
    entries += (await makeStore(join(made, folder), [replica(folder)], kind)).entries;
  }
  return entries;
}

/** A store of a server alone, whose kv has everything. */
async function openAlone(
  { config, clock }: ClusterDataParts,
  directory: string,
  parts: {
    readonly lock?: HeldLock;
    readonly shard?: { readonly number: number; readonly of: number | undefined };
  },
): Promise<AsyncDisposable & Pick<Storage, "kv" | "identity">> {
  // What there is to say comes back as a fault.
  const logger = createLogger({
    level: "error",
    format: "json",
    nowMs: () => clock.nowMs(),
    write: () => {},
  });
  const metrics = createMetrics({ commandsMax: 1 });
  const { lock, shard } = parts;
  const files = { ...config, dataDir: directory };
  const storage = await openDataDir(files, { clock, metrics, logger, lock });
  const store = await openStore({
    config,
    clock,
    logger,
    metrics,
    storage,
    defer: (run) => void setImmediate(run),
    onState: () => {},
    shard,
  });
  await store.flushNow();
  return {
    kv: storage.kv,
    ...(storage.identity === undefined ? {} : { identity: storage.identity }),
    [Symbol.asyncDispose]: async () => store[Symbol.asyncDispose](),
  };
}

/** What was moved before an interruption is left where it is. */
function moveInto(folder: string, from: string, names: readonly string[]): void {
  mkdirSync(folder, { recursive: true, mode: 0o750 });
  for (const name of names) {
    const isLeft = existsSync(join(from, name)) && !existsSync(join(folder, name));
    if (isLeft) renameSync(join(from, name), join(folder, name));
  }
  syncDirectory(from);
  syncDirectory(folder);
}

function freeName(directory: string, name: string): string {
  for (let number = 1; ; number += 1) {
    const path = join(directory, number === 1 ? name : `${name}-${number}`);
    if (!existsSync(path)) return path;
  }
}

function readOrigin(directory: string): Origin | undefined {
  const path = join(directory, replicasFolder, originFile);
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as Origin) : undefined;
}

function nothingThere(directory: string): FaultError {
  return new FaultError(
    "format",
    `${directory} holds no data of a server. A new cluster needs no preparation: start one node with clusterBootstrap.`,
  );
}

function alreadyNode(directory: string): FaultError {
  return new FaultError("format", `${directory} belongs to a cluster node already`);
}

function noNode(directory: string): FaultError {
  return new FaultError("format", `${directory} does not belong to a cluster node`);
}
