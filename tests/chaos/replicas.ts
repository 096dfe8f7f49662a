/** Whether all nodes hold the same, byte for byte, when each has read the log to its end. */
import { join } from "node:path";
import { type Kv, LevelKv, Replica } from "@codeq/engine";
import {
  EtcdServers,
  type EtcdServersOptions,
} from "../../packages/engine/src/log/replicated/etcd/etcd-servers.ts";
import type { SharedLog } from "../../packages/engine/src/log/replicated/shared-log.ts";
import { systemClock } from "../../packages/server/src/core/clock.ts";
import { Store } from "../../packages/server/src/core/store/store.ts";
import { untilAnswered } from "../cluster/etcd-servers.ts";

export interface ReplicasOptions {
  readonly shards: number;
  readonly etcd: EtcdServersOptions;
  /** Data directories of nodes that have stopped, by name. */
  readonly nodes: ReadonlyMap<string, string>;
}

/** Follow from when each replica flushed: how far it is, and the last number that a flush saw in use. */
const ownKeys: ReadonlySet<string> = new Set(["codeq/meta/position", "codeq/meta/sequence"]);
const scanned = 1000;

/** What differs, in words; nothing when the replicas are equal. */
export async function differences(options: ReplicasOptions): Promise<string[]> {
  const found: string[] = [];
  await using servers = new EtcdServers(options.etcd);
  await untilAnswered(() => servers.members());
  for (let shard = 0; shard < options.shards; shard += 1) {
    let first: { readonly node: string; readonly contents: Map<string, Buffer> } | undefined;
    for (const [node, directory] of options.nodes) {
      const log = (await servers.open(`shard-${shard}`)) as SharedLog;
      const kind = { shard, shards: options.shards };
      const contents = await contentsOf(join(directory, "replicas", `shard-${shard}`), log, kind);
      if (typeof contents === "string") found.push(`shard ${shard} of ${node}: ${contents}`);
      else if (first === undefined) first = { node, contents };
      else {
        const differing = [...new Set([...first.contents.keys(), ...contents.keys()])].filter(
          (key) => !same(first?.contents.get(key), contents.get(key)),
        );
        if (differing.length === 0) continue;
        const some = differing.slice(0, 5).join(", ");
        const who = `${first.node} and ${node}`;
        found.push(`shard ${shard} of ${who} differs in ${differing.length} keys: ${some}`);
      }
    }
  }
  return found;
}

/** Reads the log to its end, without leading, and then everything that the node has. */
async function contentsOf(
  directory: string,
  shared: SharedLog,
  kind: { readonly shard: number; readonly shards: number },
): Promise<Map<string, Buffer> | string> {
  const kv = await LevelKv.open(join(directory, "kv"));
  const { last } = await shared.bounds();
  const reached = Promise.withResolvers<void>();
  const replica = new Replica({
    shared,
    shard: kind.shard,
    self: { id: "campaign", address: "" },
    nodes: [],
    rank: Number.POSITIVE_INFINITY,
    clock: systemClock,
    drawWriter: () => 1,
    follower: Store.follow({
      kv,
      storeId: shared.logId,
      flushBytes: 16 * 1024 * 1024,
      defer: (run) => setImmediate(run),
      shards: kind.shards,
      shard: kind.shards === 1 ? undefined : kind.shard,
    }),
    open: () => Promise.reject(new Error("it does not lead")),
    onChange: () => {},
    isFull: () => Promise.resolve(false),
  });
  const isOver = (): boolean => replica.status.slot >= last || replica.status.role !== "following";
  const look = setInterval(() => {
    if (isOver()) reached.resolve();
  }, 50);
  await reached.promise;
  clearInterval(look);
  const { role, problem } = replica.status;
  await replica[Symbol.asyncDispose]();
  try {
    return role === "following" ? await everything(kv) : `${role}: ${problem}`;
  } finally {
    await kv.close();
  }
}

async function everything(kv: Kv): Promise<Map<string, Buffer>> {
  const contents = new Map<string, Buffer>();
  const cursor = kv.cursor({ after: "", before: "\x7f" });
  for (;;) {
    const entries = await cursor.next(scanned);
    if (entries.length === 0) break;
    for (const [key, value] of entries) if (!ownKeys.has(key)) contents.set(key, value);
  }
  await cursor.close();
  return contents;
}

function same(one: Buffer | undefined, other: Buffer | undefined): boolean {
  return one !== undefined && other !== undefined && one.equals(other);
}
