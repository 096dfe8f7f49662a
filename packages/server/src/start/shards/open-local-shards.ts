/** Shards in memory and in this thread, for a server inside another process. */
import { isLimited } from "../../config/quotas.ts";
import { LocalLink, type ShardLink } from "../../core/shards/link.ts";
import { ShardHost } from "../../core/shards/shard-host.ts";
import { Feed } from "../../telemetry/feed.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import { openDataDir, type Storage } from "../open-data-dir.ts";
import { openShard, type ShardParts } from "./open-shard.ts";

export interface LocalShardParts extends ShardParts {
  /** Opens the storage of a shard; default: in memory. */
  readonly openStorage?: (number: number) => Promise<Storage>;
}

export function openLocalShards(parts: LocalShardParts): Promise<readonly ShardLink[]> {
  const numbers = Array.from({ length: parts.config.shards }, (_, number) => number);
  return Promise.all(numbers.map((number) => openLocalShard(parts, number)));
}

async function openLocalShard(parts: LocalShardParts, number: number): Promise<ShardLink> {
  const { config, clock, logger, defer } = parts;
  const metrics = createMetrics({ commandsMax: config.metricsCommandsMax });
  const feed = new Feed();
  const openStorage =
    parts.openStorage ?? ((): Promise<Storage> => openDataDir(config, { clock, metrics, logger }));
  let host: ShardHost | undefined;
  const opened = await openShard({
    ...parts,
    metrics,
    feed,
    storage: await openStorage(number),
    shard: { number, of: parts.storage.storeId },
    onState: (_state, fault) => host?.reportState(fault),
  });
  const close = async (): Promise<void> => opened[Symbol.asyncDispose]();
  const link = new LocalLink({ defer, close });
  host = await ShardHost.openAlone({
    broker: opened.broker,
    feed,
    shard: number,
    count: config.shards,
    isLimited: isLimited(config.quotas),
    defer,
    send: (message) => link.deliver(message),
    onBug: (error) =>
      logger.error("a call failed", { error: (error as Error).stack ?? String(error) }),
    scrape: () => metrics.render(),
  });
  link.attach(host);
  return link;
}
