/** The stores of a data directory: in the directory itself, and one folder for each shard. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

export interface StoreDirectory {
  /** The number of a shard; `control` is the store of API keys and audit records beside shards. */
  readonly shard: number | "control" | undefined;
  readonly directory: string;
}

const folder = /^shard-(\d+)$/;

/** The numbers of the shards that have folders; none where the directory is the only store. */
export function shardsIn(directory: string): number[] {
  if (!existsSync(directory)) return [];
  const numbers = readdirSync(directory).flatMap((name) => folder.exec(name)?.[1] ?? []);
  return numbers.map(Number).sort((one, other) => one - other);
}

export function storesIn(directory: string): StoreDirectory[] {
  const shards = shardsIn(directory);
  if (shards.length === 0) return [{ shard: undefined, directory }];
  const folders = shards.map((shard) => ({ shard, directory: join(directory, `shard-${shard}`) }));
  return [{ shard: "control", directory }, ...folders];
}

/** The prefix of messages about the store; empty for the only store. */
export function storeName({ shard }: StoreDirectory): string {
  if (shard === undefined) return "";
  return shard === "control" ? "control store" : `shard ${shard}`;
}
