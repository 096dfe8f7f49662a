/** Has other nodes of the cluster lead: before a machine is stopped, or to put leaders where they belong. */
import type { HandedOff } from "../../cluster/cluster-node.ts";
import { controlNumber, nameOf } from "../../cluster/replicated-shard.ts";
import { type Answer, type Operation, refusal } from "../../edge/operation.ts";

export interface HandOffInput {
  /** A number, or `control`; empty for all of them. */
  readonly shard: string;
  /** The id of a node; empty for whichever is next. */
  readonly to: string;
}

export const handOff: Operation<HandOffInput, readonly HandedOff[]> = {
  name: "hand_off",
  access: "operator",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: {
    of: "all",
    target: ({ shard, to }) => `${shard || "all shards"} to ${to || "the next node"}`,
    detail: (handed) => handed.map((each) => `${nameOf(each.shard)}: ${each.to}`).join(", "),
  },
  run: async ({ cluster }, _call, input) => {
    // A server alone leads what it has.
    if (cluster === undefined) return { ok: true, value: [] };
    const { nodes, shards } = cluster.status;
    const to = input.to === "" ? undefined : input.to;
    const ids = nodes.map(({ id }) => id);
    if (to !== undefined && !ids.includes(to)) {
      return refusal("invalid_argument", `invalid 'to' (the nodes are ${ids.join(", ")})`);
    }
    const shard = shardIn(input.shard, shards.length);
    if (!shard.ok) return shard;
    const handed = await cluster.handOff({ shard: shard.value, to });
    return "why" in handed ? refusal(handed.code, handed.why) : { ok: true, value: handed };
  },
};

/** Of which log is spoken: undefined for all of them. */
export function shardIn(text: string, count: number): Answer<number | undefined> {
  if (text === "") return { ok: true, value: undefined };
  if (text === "control") return { ok: true, value: controlNumber };
  const value = Number(text);
  if (/^\d+$/.test(text) && value < count) return { ok: true, value };
  return refusal("invalid_argument", `invalid 'shard' (0 to ${count - 1}, or control)`);
}
