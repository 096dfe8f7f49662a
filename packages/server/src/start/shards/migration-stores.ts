/** The old and the new stores of a change of the number of shards. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { FaultError, OpenedParts } from "@codeq/engine";
import type { TaskId } from "@codeq/queue";
import type { Config } from "../../config/settings.ts";
import {
  type MovedKey,
  ownerOf,
  ShardData,
  type ShardDataOptions,
} from "../../core/backup/shard-data.ts";
import type { Clock } from "../../core/clock.ts";
import { shardOf, shardOfKey } from "../../core/shards/shard-of.ts";
import { kindFileName, writeKindFile } from "../../core/store/kind-file.ts";
import { createLogger } from "../../telemetry/logger.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import { type HeldLock, openDataDir } from "../open-data-dir.ts";

export interface StoreParts {
  /** Of the data directory. */
  readonly config: Config;
  readonly clock: Clock;
  readonly lock: HeldLock;
  /** Of the files of the logs that are made; default: 64 MiB. */
  readonly segmentBytes?: number;
}

/** Small, because all new stores are open at the same time. */
const flushBytes = 2 * 1024 * 1024;

/** What a store in the root directory consists of, beside the shards. */
export const rootFiles: readonly string[] = ["kv", "log", "witness", kindFileName];

export const isShardFolder = (name: string): boolean => /^shard-\d+$/.test(name);

/** Of the shards that do not lie in the root itself. */
export function shardFolders(count: number): readonly string[] {
  return count === 1 ? [] : Array.from({ length: count }, (_, number) => `shard-${number}`);
}

interface OpenedStore {
  readonly data: ShardData;
  readonly identity: number | undefined;
}

async function openStore(
  { config, clock, segmentBytes }: StoreParts,
  directory: string,
  options: Pick<ShardDataOptions, "kind" | "mayBeNew"> & { readonly lock?: HeldLock | undefined },
): Promise<OpenedStore> {
  // What there is to say comes back as a fault.
  const logger = createLogger({
    level: "error",
    format: "json",
    nowMs: () => clock.nowMs(),
    write: () => {},
  });
  const metrics = createMetrics({ commandsMax: 1 });
  const { lock, ...opening } = options;
  // What the journal says was written must survive a power failure, whatever the server does.
  const files = { ...config, dataDir: directory, durability: "fsync" } as const;
  const storage = await openDataDir(files, { clock, metrics, logger, lock, segmentBytes });
  const data = await ShardData.open({
    ...storage,
    ...opening,
    clock,
    defer: (run) => void setImmediate(run),
    minFreeBytes: config.minFreeDiskBytes,
    flushBytes,
    syncIntervalMs: undefined,
  });
  if (opening.mayBeNew) writeKindFile(directory, { ...data.kind, identity: storage.identity });
  return { data, identity: storage.identity };
}

/** How many shards the data has. */
export async function readShards(parts: StoreParts): Promise<number> {
  const { lock, config } = parts;
  const { data } = await openStore(parts, config.dataDir, { lock, mayBeNew: false });
  await data[Symbol.asyncDispose]();
  return data.kind.shards;
}

/** One after the other: the store of the root, which with one shard has everything, then the shards. */
export async function* oldStores(
  parts: StoreParts,
  count: number,
): AsyncGenerator<readonly [number: number, data: ShardData]> {
  const root = parts.config.dataDir;
  let of: number | undefined;
  for (const [number, folder] of ["", ...shardFolders(count)].entries()) {
    const directory = join(root, folder);
    if (!existsSync(join(directory, "kv"))) {
      throw new FaultError("format", `${directory} is missing or empty. Restore a backup.`);
    }
    const isRoot = number === 0;
    const opened = await openStore(parts, directory, {
      mayBeNew: false,
      lock: isRoot ? parts.lock : undefined,
      kind: isRoot ? { shards: count } : { shards: count, shard: number - 1, of },
    });
    of ??= opened.identity;
    try {
      yield [number, opened.data];
    } finally {
      await opened.data[Symbol.asyncDispose]();
    }
  }
}

/** All of them at once, made when they are not there. */
export class NewStores implements AsyncDisposable {
  /** Of API keys and audit records; with one shard it is that shard. */
  readonly control: ShardData;
  readonly shards: readonly ShardData[];

  private constructor(control: ShardData, shards: readonly ShardData[]) {
    this.control = control;
    this.shards = shards;
  }

  static async open(parts: StoreParts, root: string, count: number): Promise<NewStores> {
    await using opened = new OpenedParts();
    const control = await openStore(parts, root, { mayBeNew: true, kind: { shards: count } });
    opened.use(control.data);
    const shards: ShardData[] = [];
    for (const [shard, folder] of shardFolders(count).entries()) {
      const kind = { shards: count, shard, of: control.identity };
      const { data } = await openStore(parts, join(root, folder), { mayBeNew: true, kind });
      shards.push(opened.use(data));
    }
    opened.keep();
    return new NewStores(control.data, shards.length === 0 ? [control.data] : shards);
  }

  get all(): ReadonlySet<ShardData> {
    return new Set([this.control, ...this.shards]);
  }

  ofTask(id: TaskId): ShardData {
    return this.shards[shardOf(id, this.shards.length)] as ShardData;
  }

  /** The shard that is asked for a key first, and the shard of its task, which has the key as well. */
  ofKey({ tenantId, key, entry }: MovedKey): ReadonlySet<ShardData> {
    return new Set([this.#asked(tenantId, key), this.ofTask(entry.taskId)]);
  }

  /** Where any other key belongs. */
  of(storeKey: string): ShardData {
    const owner = ownerOf(storeKey);
    switch (owner.of) {
      case "task":
        return this.ofTask(owner.id);
      case "key":
        return this.#asked(owner.tenantId, owner.key);
      case "control":
        return this.control;
    }
  }

  #asked(tenantId: MovedKey["tenantId"], key: string): ShardData {
    return this.shards[shardOfKey(tenantId, key, this.shards.length)] as ShardData;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.all].map((store) => store[Symbol.asyncDispose]()));
  }
}
