/** The stores of a data directory that no server uses, opened one after the other to be copied. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { FaultError } from "@codeq/engine";
import type { Config } from "../config/settings.ts";
import { shardFolders } from "../core/backup/replace-stores.ts";
import { type FlushedStore, openFlushed } from "../core/backup/store-files.ts";
import type { Clock } from "../core/clock.ts";
import { createLogger } from "../telemetry/logger.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { type HeldLock, openDataDir } from "./open-data-dir.ts";

export interface OldStoreParts {
  /** The configuration of the data directory. */
  readonly config: Config;
  readonly clock: Clock;
  readonly lock: HeldLock;
}

export interface OldStore extends FlushedStore {
  /** Its folder in the data directory; empty for the store of the directory itself. */
  readonly folder: string;
}

/** The store of the directory itself first, which with one shard has everything. */
export async function* oldStores(
  parts: OldStoreParts,
  shards: number,
): AsyncGenerator<OldStore, void, void> {
  let of: number | undefined;
  for (const [number, folder] of ["", ...shardFolders(shards)].entries()) {
    const kind = number === 0 ? { shards } : { shards, shard: number - 1, of };
    await using store = await open(parts, folder, kind);
    of ??= store.storeId;
    yield { ...store, folder };
  }
}

/** How many shards the data has. */
export async function readShards(parts: OldStoreParts): Promise<number> {
  await using store = await open(parts, "", undefined);
  return store.kind.shards;
}

async function open(
  { config, clock, lock }: OldStoreParts,
  folder: string,
  kind: FlushedStore["kind"] | undefined,
): Promise<FlushedStore & { readonly storeId: number | undefined }> {
  const dataDir = join(config.dataDir, folder);
  if (!existsSync(join(dataDir, "kv"))) {
    throw new FaultError("format", `${dataDir} is missing or empty. Restore a backup.`);
  }
  // Problems come back as faults.
  const nowMs = (): number => clock.nowMs();
  const logger = createLogger({ level: "error", format: "json", nowMs, write: () => {} });
  const metrics = createMetrics({ commandsMax: 1 });
  const storage = await openDataDir(
    { ...config, dataDir },
    { clock, metrics, logger, lock: folder === "" ? lock : undefined },
  );
  const store = await openFlushed({
    ...storage,
    kind,
    clock,
    defer: (run) => void setImmediate(run),
    minFreeBytes: config.minFreeDiskBytes,
    flushBytes: config.flushBytes,
    syncIntervalMs: undefined,
  });
  return { ...store, storeId: storage.storeId };
}
