/** `cluster status`: the nodes of a cluster, and the leader of each shard, as one node sees them. */
import type { Call } from "../call.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Column, tableLines } from "../terminal/table.ts";

interface ClusterFields {
  readonly enabled: boolean;
  readonly self?: string;
  readonly nodes: readonly { readonly id: string; readonly address: string }[];
  readonly shards: readonly ShardFields[];
}

interface ShardFields {
  readonly shard: number;
  readonly role: string;
  readonly leader?: string;
  readonly epoch: number;
  readonly slot: number;
  readonly silentMs: number;
  readonly problem?: string;
}

const columns: readonly Column<ShardFields>[] = [
  { title: "shard", align: "right", show: ({ shard }) => String(shard) },
  { title: "leader", show: ({ leader }) => leader ?? "none" },
  { title: "this node", show: ({ role }) => role },
  { title: "epoch", align: "right", show: ({ epoch }) => String(epoch) },
  { title: "slot", align: "right", show: ({ slot }) => String(slot) },
  { title: "silent ms", align: "right", show: ({ silentMs }) => String(silentMs) },
  { title: "problem", show: ({ problem }) => problem ?? "" },
];

export async function status(call: Call): Promise<number> {
  const { text } = await (await call.api()).get("/cluster");
  const cluster = JSON.parse(text) as ClusterFields;
  if (call.json) call.printJson(cluster);
  else if (!cluster.enabled) call.print("this server runs alone; it is no node of a cluster");
  else {
    const nodes = cluster.nodes.map(({ id, address }) => `${id} (${address})`).join(", ");
    call.print(`node ${cluster.self} of ${nodes}`);
    for (const line of tableLines(columns, cluster.shards, call.style)) call.print(line);
  }
  const isHealthy = cluster.shards.every(({ leader }) => leader !== undefined);
  return isHealthy ? exitCodes.ok.code : exitCodes.taskFailed.code;
}
