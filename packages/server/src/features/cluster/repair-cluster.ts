/**
 * Says what the nodes have of their logs and, when it is confirmed, repairs logs that lost records and nodes that
 * cannot follow their log.
 */
import { FaultError } from "@codeq/engine";
import type { RepairedLog } from "../../cluster/repair.ts";
import { type Operation, refusal } from "../../edge/operation.ts";
import { shardIn } from "./hand-off.ts";

export interface RepairInput {
  /** A number, or `control`; empty for all of them. */
  readonly shard: string;
  /** Nodes that are permanently lost. */
  readonly without: readonly string[];
  /** The node whose data counts; empty for the newest. */
  readonly from: string;
  readonly isConfirmed: boolean;
}

export const repairCluster: Operation<RepairInput, readonly RepairedLog[]> = {
  name: "repair_cluster",
  access: "operator",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: {
    of: "all",
    target: ({ shard }) => shard || "all shards",
    detail: (logs) => `${logs.filter(({ isDone }) => isDone).length} repaired`,
  },
  run: async ({ cluster }, _call, input) => {
    if (cluster === undefined) return { ok: true, value: [] };
    const { nodes, shards } = cluster.status;
    const ids = nodes.map(({ id }) => id);
    const named = input.from === "" ? input.without : [...input.without, input.from];
    const stranger = named.find((id) => !ids.includes(id));
    if (stranger !== undefined) {
      const text = `there is no node ${stranger}; the nodes are ${ids.join(", ")}`;
      return refusal("invalid_argument", text);
    }
    const shard = shardIn(input.shard, shards.length);
    if (!shard.ok) return shard;
    const { without, isConfirmed } = input;
    const from = input.from === "" ? undefined : input.from;
    const wanted = { without, from, isConfirmed };
    try {
      return { ok: true, value: await cluster.repair(wanted, shard.value) };
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
      const text = `the repair has ended early: ${error.message}. No data was deleted. Run it again`;
      return refusal("storage_failed", text);
    }
  },
};
