/**
 * Turns the data directory of a server alone into that of the first node of a cluster, and back. No server has the
 * directory open meanwhile. The new stores are filled beside the old ones, which are then kept in a folder of their own.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { FaultError } from "@codeq/engine";
import type { Config } from "../../config/settings.ts";
import {
  replaceStores,
  replicasFolder,
  rootFiles,
  settleStores,
  shardFolders,
} from "../../core/backup/replace-stores.ts";
import { makeReplica, makeStore, type StorePart } from "../../core/backup/store-files.ts";
import type { Clock } from "../../core/clock.ts";
import { type OldStore, type OldStoreParts, oldStores } from "../old-stores.ts";
import { lockDataDir } from "../open-data-dir.ts";

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

/** What a node that was a server alone begins its logs with: their identities, by the names of the replicas. */
interface Origin {
  readonly logs: Readonly<Record<string, number>>;
}

const originFile = "origin.json";

/** Which logs this directory begins, by the names of their replicas. */
export function logsToBegin(config: Config): Origin["logs"] {
  const path = join(resolve(config.dataDir), replicasFolder, originFile);
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as Origin).logs : {};
}

/** Throws a fault that says what to do. The data is unchanged then. */
export async function initCluster(parts: ClusterDataParts): Promise<ConvertedData> {
  const { shards } = parts.config;
  return await convert(parts, {
    before: "before-cluster",
    replaced: [...rootFiles, ...shardFolders(shards)],
    check: (directory) => {
      if (existsSync(join(directory, replicasFolder))) {
        throw new FaultError("format", `${directory} belongs to a cluster node already`);
      }
      if (existsSync(join(directory, "kv"))) return;
      const advice = "A new cluster needs no preparation: set clusterBootstrap.";
      throw new FaultError("format", `${directory} holds no data of a server. ${advice}`);
    },
    fill: (old, folder) => fillReplicas(old, join(folder, replicasFolder)),
  });
}

async function fillReplicas(parts: OldStoreParts, made: string): Promise<number> {
  const { shards } = parts.config;
  const logs: Record<string, number> = {};
  let entries = 0;
  const fill = async (name: string, { kv }: OldStore, part: StorePart): Promise<void> => {
    const copied = await makeReplica(join(made, name), kv, part);
    logs[name] = copied.storeId;
    entries += copied.entries;
  };
  for await (const store of oldStores(parts, shards)) {
    if (store.folder === "") await fill("control", store, "control");
    else await fill(store.folder, store, "all");
    if (shards === 1) await fill("shard-0", store, "tasks");
  }
  writeFileSync(join(made, originFile), JSON.stringify({ logs }));
  return entries;
}

/** Throws a fault that says what to do. The data is unchanged then. */
export async function leaveCluster(parts: ClusterDataParts): Promise<ConvertedData> {
  return await convert(parts, {
    before: "before-alone",
    replaced: [replicasFolder, ...rootFiles],
    check: (directory) => {
      if (existsSync(join(directory, replicasFolder))) return;
      throw new FaultError("format", `${directory} does not belong to a cluster node`);
    },
    fill: ({ config }, folder) => fillStores(config, folder),
  });
}

async function fillStores({ dataDir, shards }: Config, made: string): Promise<number> {
  const replica = (name: string): string => join(resolve(dataDir), replicasFolder, name);
  const ofRoot = shards === 1 ? ["control", "shard-0"] : ["control"];
  const root = await makeStore(made, ofRoot.map(replica), { shards });
  let { entries } = root;
  for (const [shard, folder] of shardFolders(shards).entries()) {
    const kind = { shards, shard, of: root.storeId };
    entries += (await makeStore(join(made, folder), [replica(folder)], kind)).entries;
  }
  return entries;
}

interface Conversion {
  /** The folder for the old files, with a number where there is one already. */
  readonly before: string;
  readonly replaced: readonly string[];
  readonly check: (directory: string) => void;
  /** Returns how many entries it has copied. */
  readonly fill: (old: OldStoreParts, folder: string) => Promise<number>;
}

async function convert(
  parts: ClusterDataParts,
  { before, replaced, check, fill }: Conversion,
): Promise<ConvertedData> {
  const directory = resolve(parts.config.dataDir);
  await using lock = await lockDataDir(directory);
  const done = settleStores(directory);
  if (isConverted(done) && done.before.startsWith(join(directory, before))) return done;
  check(directory);
  const kept = freeName(directory, before);
  return await replaceStores(directory, {
    replaced,
    before: kept,
    fill: async (folder) => ({
      shards: parts.config.shards,
      entries: await fill({ ...parts, lock }, folder),
      before: join(directory, kept),
    }),
  });
}

function isConverted(result: unknown): result is ConvertedData {
  return typeof result === "object" && result !== null && "before" in result;
}

function freeName(directory: string, name: string): string {
  for (let number = 1; ; number += 1) {
    const free = number === 1 ? name : `${name}-${number}`;
    if (!existsSync(join(directory, free))) return free;
  }
}
