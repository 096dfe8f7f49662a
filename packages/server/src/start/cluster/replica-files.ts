/** The files of the replicas of a cluster node, while no process has them open. */
import { existsSync, renameSync } from "node:fs";
import { resolve } from "node:path";
import { type Kv, logPositionOf, moveToLog, readStoreId } from "@codeq/engine";
import type { ReplicaFiles } from "../../cluster/node-log.ts";
import { controlNumber } from "../../cluster/replicated-shard.ts";
import type { Config } from "../../config/settings.ts";
import { replicasFolder, syncPath } from "../../core/backup/replace-stores.ts";
import { hasReplica, openReplica } from "../open-data-dir.ts";

export function replicaFiles(config: Config, shard: number): ReplicaFiles {
  const name = replicaName(shard);
  const withKv = async <T>(use: (kv: Kv) => Promise<T> | T): Promise<T> => {
    const { kv } = await openReplica(config, name);
    try {
      return await use(kv);
    } finally {
      await kv.close();
    }
  };
  return {
    stored: async () => {
      if (!hasReplica(config, name)) return undefined;
      return await withKv((kv) => {
        const logId = readStoreId(kv);
        return logId === undefined ? undefined : { logId, ...slotAndEpoch(kv) };
      });
    },
    moveToLog: (logId) => withKv((kv) => moveToLog(kv, logId)),
    setAside: async () => {
      if (!hasReplica(config, name)) return undefined;
      const replicas = resolve(config.dataDir, replicasFolder);
      for (let number = 1; ; number += 1) {
        const aside = resolve(replicas, `${name}.before-repair-${number}`);
        if (existsSync(aside)) continue;
        renameSync(resolve(replicas, name), aside);
        syncPath(replicas);
        return aside;
      }
    },
  };
}

function slotAndEpoch(kv: Kv): { readonly slot: number; readonly epoch: number } {
  const { slot, epoch } = logPositionOf(kv);
  return { slot, epoch };
}

/** The folder of a replica. */
export function replicaName(shard: number): string {
  return shard === controlNumber ? "control" : `shard-${shard}`;
}
