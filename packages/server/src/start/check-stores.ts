/** What can be known about the stores of a data directory without opening their files. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { FaultError } from "@codeq/engine";
import type { Config } from "../config/settings.ts";
import { checkKindFile, readKindFile, writeKindFile } from "../core/store/kind-file.ts";
import type { Storage } from "./open-data-dir.ts";
import type { ShardName } from "./shards/open-shard.ts";

/** Throws when the stores are not those of this configuration. Nothing is opened, and nothing written. */
export function checkStores(config: Config): void {
  if (!hasNotes(config)) return;
  const directory = resolve(config.dataDir);
  const root = readKindFile(directory);
  if (root === undefined) return;
  const { shards } = config;
  checkKindFile(directory, { shards });
  if (shards === 1) return;
  assertShardsThere(config);
  for (let shard = 0; shard < shards; shard++) {
    checkKindFile(join(directory, `shard-${shard}`), { shards, shard, of: root.identity });
  }
}

/** For the checks of the next start. The store of a directory with shards is noted when all of them are there. */
export function noteStore(config: Config, storage: Storage, shard?: ShardName): void {
  if (!hasNotes(config)) return;
  const { shards, dataDir } = config;
  const { storeId } = storage;
  const folder = shard === undefined ? dataDir : join(dataDir, `shard-${shard.number}`);
  writeKindFile(resolve(folder), {
    shards,
    shard: shard?.number,
    of: shard?.of,
    identity: storeId,
  });
}

/** A node of a cluster has other stores. */
function hasNotes({ persistenceProvider, clusterMembers }: Config): boolean {
  return persistenceProvider !== "memory" && clusterMembers === "";
}

/** Throws when a shard that was there once is missing. */
export function assertShardsThere(config: Config): void {
  for (let shard = 0; shard < config.shards; shard++) {
    const directory = join(config.dataDir, `shard-${shard}`);
    if (existsSync(directory)) continue;
    throw new FaultError(
      "format",
      `the directory of shard ${shard} is missing: ${directory}. ` +
        "Put it back, or restore the whole data directory from one backup.",
    );
  }
}
