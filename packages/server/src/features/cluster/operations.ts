/**
 * What this node knows about its cluster, and what operators do with a cluster: have other nodes lead, add and remove
 * nodes, repair logs, and end it to go back to a server alone.
 */
import { FaultError } from "@codeq/engine";
import { api } from "@codeq/protocol/api";
import type { LogServerStatus } from "../../cluster/cluster-node.ts";
import type { NotChanged } from "../../cluster/members/membership.ts";
import type { RepairedLog } from "../../cluster/members/repair.ts";
import type { LogStatus } from "../../cluster/node-log.ts";
import { controlNumber, nameOf } from "../../cluster/replicated-shard.ts";
import { type ClusterNode, readMember } from "../../config/cluster.ts";
import { bind } from "../../edge/bind.ts";
import { type Answer, refusal } from "../../edge/operation.ts";

export const getCluster = bind(api.cluster.getCluster, {
  run: async ({ cluster, freeBytes: ask, config }) => {
    const freeBytes = await ask();
    const disk = { freeBytes, minFreeBytes: config.minFreeDiskBytes };
    const status = cluster?.status;
    const health = await cluster?.health();
    return {
      ok: true,
      value: {
        enabled: status !== undefined,
        self: status?.self.id,
        nodes: (health?.nodes ?? []).map((node) => ({ ...node, url: status?.urls.get(node.id) })),
        logServers: (health?.logServers ?? []).map(shownServer),
        shards: (status?.shards ?? []).map((each) => ({ ...each, ...replicaOf(each) })),
        control: status && replicaOf(status.control),
        disk: Number.isFinite(freeBytes) ? disk : undefined,
      },
    };
  },
});

function shownServer({ name, url, isOnline, isLearner, health }: LogServerStatus) {
  const problem = health?.problems.join(", ");
  return {
    name,
    url,
    isUp: isOnline,
    isLeading: health?.isLeader === true,
    isLearning: isLearner,
    version: health?.version,
    usedBytes: health?.usedBytes,
    problem: problem === "" ? undefined : problem,
  };
}

function replicaOf({ leader, silentMs, ...replica }: LogStatus) {
  return { ...replica, leader: leader?.id, silentMs: Math.round(silentMs) };
}

/** Every token may ask for it, as with the Go server. */
export const getRaftStatus = bind(api.cluster.getRaftStatus, {
  run: ({ cluster }) => {
    const status = cluster?.status;
    const groups = status?.shards.map(({ shard, leader }) => ({
      shardIdx: shard,
      isLeader: leader?.id === status.self.id,
      selfId: status.self.id,
      selfAddr: status.self.address,
      leaderId: leader?.id ?? "",
      leaderAddr: leader?.address ?? "",
      leaderHTTPAddr: status.urls.get(leader?.id ?? ""),
      hasLeader: leader !== undefined,
    }));
    const enabled = status !== undefined;
    return { ok: true, value: { enabled, numGroups: groups?.length ?? 0, groups } };
  },
});

/** Before a machine is stopped, or to put leaders where they belong. */
export const handOff = bind(api.cluster.handOff, {
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
    return shard.ok ? answerOf(await cluster.handOff({ shard: shard.value, to })) : shard;
  },
  audit: {
    target: ({ shard, to }) => `${shard || "all shards"} to ${to || "the next node"}`,
    detail: (handed) => handed.map((each) => `${nameOf(each.shard)}: ${each.to}`).join(", "),
  },
  show: (handed) => ({ status: 200, value: { shards: handed.map(withShardName) } }),
});

/** The log that is meant; undefined for all logs. */
function shardIn(text: string, count: number): Answer<number | undefined> {
  if (text === "") return { ok: true, value: undefined };
  if (text === "control") return { ok: true, value: controlNumber };
  const value = Number(text);
  if (/^\d+$/.test(text) && value < count) return { ok: true, value };
  return refusal("invalid_argument", `invalid 'shard' (0 to ${count - 1}, or control)`);
}

function answerOf<T extends object>(done: T | NotChanged): Answer<T> {
  return "why" in done ? refusal(done.code, done.why) : { ok: true, value: done };
}

function withShardName<T extends { readonly shard: number }>(of: T) {
  return { ...of, shard: shardName(of.shard) };
}

function shardName(shard: number): string {
  return shard === controlNumber ? "control" : String(shard);
}

/** The logs get their last records, so that every node that has read them has everything, and no node can lead. */
export const endCluster = bind(api.cluster.endCluster, {
  run: async ({ cluster }, _call, { isConfirmed }) => {
    if (!isConfirmed) return refusal("invalid_argument", "confirm with 'confirm': true");
    await cluster?.end();
    return { ok: true, value: { ended: cluster !== undefined } };
  },
});

const ofMember = {
  target: ({ node }: { readonly node: string }) => node,
  detail: ({ state }: { readonly state: string }) => state,
} as const;

export const addNode = bind(api.cluster.addNode, {
  run: async ({ cluster }, _call, { node }) => {
    if (cluster === undefined) return refusal("no_cluster");
    const member = readMember(node);
    if (member === undefined) {
      const text = "invalid 'node' (id=host:port, such as d=10.0.0.4:7000)";
      return refusal("invalid_argument", text);
    }
    return answerOf(await cluster.add(member));
  },
  audit: ofMember,
  show: ({ logs, members, ...added }) => ({
    status: 200,
    value: { ...added, logs: logs.map(withShardName), members: memberText(members) },
  }),
});

export const removeNode = bind(api.cluster.removeNode, {
  run: async ({ cluster }, _call, { node }) => {
    if (cluster === undefined) return refusal("no_cluster");
    return answerOf(await cluster.remove(node));
  },
  audit: ofMember,
  show: ({ members, ...removed }) => ({
    status: 200,
    value: { ...removed, members: memberText(members) },
  }),
});

function memberText(members: readonly ClusterNode[]): string {
  return members.map(({ id, address }) => `${id}=${address}`).join(",");
}

export const repairCluster = bind(api.cluster.repairCluster, {
  run: async ({ cluster }, _call, input): Promise<Answer<readonly RepairedLog[]>> => {
    if (cluster === undefined) return { ok: true, value: [] };
    const { nodes, shards } = cluster.status;
    const ids = nodes.map(({ id }) => id);
    const from = input.from === "" ? undefined : input.from;
    const { without, isConfirmed } = input;
    const named = from === undefined ? without : [...without, from];
    const unknown = named.find((id) => !ids.includes(id));
    if (unknown !== undefined) {
      const text = `there is no node ${unknown}; the nodes are ${ids.join(", ")}`;
      return refusal("invalid_argument", text);
    }
    const shard = shardIn(input.shard, shards.length);
    if (!shard.ok) return shard;
    try {
      return { ok: true, value: await cluster.repair({ without, from, isConfirmed }, shard.value) };
    } catch (error) {
      if (!(error instanceof FaultError)) throw error;
      const text = `the repair has ended early: ${error.message}. No data was deleted. Run it again`;
      return refusal("storage_failed", text);
    }
  },
  audit: {
    target: ({ shard }) => shard || "all shards",
    detail: (logs) => `${logs.filter(({ isDone }) => isDone).length} repaired`,
  },
  show: (logs) => ({ status: 200, value: { logs: logs.map(shownRepair) } }),
});

function shownRepair({ shard, plan, copies, isDone }: RepairedLog) {
  return {
    ...plan,
    shard: shardName(shard),
    isDone,
    copies: copies.map(({ stored, ...copy }) => ({ ...copy, ...stored })),
  };
}
