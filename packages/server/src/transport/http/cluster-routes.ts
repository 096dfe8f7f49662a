/** Routes that show a cluster: in our form, and in that of the Go server. */
import type { ClusterStatus } from "../../cluster/cluster-node.ts";
import { operations } from "../../operations/index.ts";
import { json, route } from "./route.ts";

export const clusterRoutes = [
  route({
    method: "GET",
    path: "/v1/codeq/cluster",
    operation: operations.getCluster,
    name: "getCluster",
    summary: "Show the nodes of the cluster and who leads each shard",
    replies: {
      200: { about: "What this node knows of the cluster.", schema: "Cluster" },
    },
    input: () => ({ ok: true, value: undefined }),
    reply: (status) => json(JSON.stringify(clusterFields(status))),
  }),
  route({
    method: "GET",
    path: "/v1/codeq/raft/status",
    operation: operations.getRaftStatus,
    name: "getRaftStatus",
    summary: "Show who leads each shard, in the form of the Go server",
    replies: {
      200: { about: "Who leads each shard.", schema: "RaftStatus" },
    },
    input: () => ({ ok: true, value: undefined }),
    reply: (status) => json(JSON.stringify(raftFields(status))),
  }),
] as const;

function clusterFields(status: ClusterStatus | undefined): object {
  if (status === undefined) return { enabled: false, nodes: [], shards: [] };
  return {
    enabled: true,
    self: status.self.id,
    nodes: status.nodes,
    shards: status.shards.map(({ shard, role, leader, epoch, slot, index, silentMs, problem }) => ({
      shard,
      role,
      leader: leader?.id,
      epoch,
      slot,
      index,
      silentMs: Math.round(silentMs),
      problem,
    })),
  };
}

function raftFields(status: ClusterStatus | undefined): object {
  if (status === undefined) return { enabled: false, numGroups: 0 };
  const { self, shards } = status;
  const groups = shards.map(({ shard, leader }) => ({
    shardIdx: shard,
    isLeader: leader?.id === self.id,
    selfId: self.id,
    selfAddr: self.address,
    leaderId: leader?.id ?? "",
    leaderAddr: leader?.address ?? "",
    hasLeader: leader !== undefined,
  }));
  return { enabled: true, numGroups: groups.length, groups };
}
