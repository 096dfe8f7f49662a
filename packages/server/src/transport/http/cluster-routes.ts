/** Routes of a cluster: its state, in our form and in that of the Go server; hand over and end. */
import type { ClusterStatus, ShardOfNode } from "../../cluster/cluster-node.ts";
import { controlNumber } from "../../cluster/replicated-shard.ts";
import { operations } from "../../operations/index.ts";
import { EndClusterBody, HandOffBody } from "./bodies.ts";
import type { BodyOf } from "./json-body.ts";
import { json, route } from "./route.ts";

export const clusterRoutes = [
  route({
    method: "GET",
    path: "/v1/codeq/cluster",
    operation: operations.getCluster,
    name: "getCluster",
    summary: "Show the nodes of the cluster, who leads each shard, and the disk of the node",
    replies: {
      200: { about: "What this node knows of the cluster.", schema: "Cluster" },
    },
    input: () => ({ ok: true, value: undefined }),
    reply: ({ status, disk }) => json(JSON.stringify({ ...clusterFields(status), disk })),
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
  route({
    method: "POST",
    path: "/v1/codeq/admin/cluster/handoff",
    operation: operations.handOff,
    name: "handOff",
    summary: "Have another node lead",
    about:
      "Answers when the next leaders are known. Requests that meet the hand-over are refused with `no_leader` or " +
      "`outcome_unknown`, which the client library retries.",
    refusals: ["invalid_argument", "no_leader"],
    replies: {
      200: { about: "Who leads now; nobody else for a server alone.", schema: "HandedOff" },
    },
    body: HandOffBody,
    input: ({ body }) => {
      const { shard, to } = body as BodyOf<typeof HandOffBody>;
      return { ok: true, value: { shard: shard ?? "", to: to ?? "" } };
    },
    reply: (handed) => {
      const shards = handed.map(({ shard, from, to }) => ({ shard: shardName(shard), from, to }));
      return json(JSON.stringify({ shards }));
    },
  }),
  route({
    method: "POST",
    path: "/v1/codeq/admin/cluster/end",
    operation: operations.endCluster,
    name: "endCluster",
    summary: "End the cluster, to go back to a server alone",
    about:
      "Every log gets its last record. The cluster accepts nothing afterwards, and each node has everything: stop " +
      "the nodes, and run `codeq cluster leave` on one of them.",
    refusals: ["invalid_argument", "no_leader"],
    replies: { 200: { about: "All logs have ended.", schema: "EndedCluster" } },
    body: EndClusterBody,
    input: ({ body }) => {
      const { confirm } = body as BodyOf<typeof EndClusterBody>;
      return { ok: true, value: { isConfirmed: confirm === true } };
    },
    reply: ({ hasEnded }) => json(JSON.stringify({ ended: hasEnded })),
  }),
] as const;

function clusterFields(status: ClusterStatus | undefined): object {
  if (status === undefined) return { enabled: false, nodes: [], shards: [] };
  return {
    enabled: true,
    self: status.self.id,
    nodes: status.nodes,
    shards: status.shards.map((each) => ({ shard: each.shard, ...replicaFields(each) })),
    control: replicaFields(status.control),
  };
}

function replicaFields(replica: Omit<ShardOfNode, "shard">): object {
  const { role, leader, epoch, slot, index, silentMs, problem } = replica;
  return {
    role,
    leader: leader?.id,
    epoch,
    slot,
    index,
    silentMs: Math.round(silentMs),
    problem,
  };
}

function shardName(shard: number): string {
  return shard === controlNumber ? "control" : String(shard);
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
