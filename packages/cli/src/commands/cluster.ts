/** `cluster`: the nodes of a cluster and the leader of each shard, as one node sees them; hand over and end. */
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Column, tableLines } from "../terminal/table.ts";

interface ClusterFields {
  readonly enabled: boolean;
  readonly self?: string;
  readonly nodes: readonly { readonly id: string; readonly address: string }[];
  readonly shards: readonly ShardFields[];
  readonly control?: Omit<ShardFields, "shard">;
}

interface ShardFields {
  readonly shard: number | "control";
  readonly role: string;
  readonly leader?: string;
  readonly epoch: number;
  readonly slot: number;
  readonly silentMs: number;
  readonly problem?: string;
}

const runsAlone = "this server runs alone; it is no node of a cluster";
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
  else if (!cluster.enabled) call.print(runsAlone);
  else {
    const nodes = cluster.nodes.map(({ id, address }) => `${id} (${address})`).join(", ");
    call.print(`node ${cluster.self} of ${nodes}`);
    for (const line of tableLines(columns, logsOf(cluster), call.style)) call.print(line);
  }
  const isHealthy = logsOf(cluster).every(({ leader }) => leader !== undefined);
  return isHealthy ? exitCodes.ok.code : exitCodes.taskFailed.code;
}

function logsOf({ shards, control }: ClusterFields): readonly ShardFields[] {
  return control === undefined ? shards : [...shards, { shard: "control", ...control }];
}

interface HandedOff {
  readonly shard: string;
  readonly from: string;
  readonly to: string;
}

export async function handOff(call: Call): Promise<number> {
  const shard = call.options.text("shard");
  const to = call.options.text("to");
  const body = JSON.stringify({
    ...(shard === undefined ? {} : { shard }),
    ...(to === undefined ? {} : { to }),
  });
  const { text } = await (await call.api()).post("/admin/cluster/handoff", body);
  const { shards } = JSON.parse(text) as { readonly shards: readonly HandedOff[] };
  if (call.json) call.printJson({ shards });
  else {
    if (shards.length === 0) call.print(runsAlone);
    for (const { shard: name, from, to: next } of shards) {
      const what = logName(name);
      call.print(from === next ? `${next} leads ${what} already` : `${next} leads ${what} now`);
    }
  }
  return exitCodes.ok.code;
}

/** What people call a log. */
export function logName(shard: string): string {
  return shard === "control" ? "the control log" : `shard ${shard}`;
}

export async function end(call: Call): Promise<number> {
  if (!call.options.has("yes")) {
    throw usageError("the cluster accepts nothing after its end", "codeq cluster end --yes");
  }
  const body = JSON.stringify({ confirm: true });
  const { text } = await (await call.api()).post("/admin/cluster/end", body);
  const { ended } = JSON.parse(text) as { readonly ended: boolean };
  if (call.json) call.printJson({ ended });
  else if (ended)
    call.print("the cluster has ended; stop it, and run codeq cluster leave on a node");
  else call.print(runsAlone);
  return exitCodes.ok.code;
}
