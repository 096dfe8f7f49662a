/** Routes of a cluster: its state, in our form and in that of the Go server; its nodes and leaders; its end. */
import type { ClusterStatus, ShardOfNode } from "../../cluster/cluster-node.ts";
import type { RepairedLog } from "../../cluster/repair.ts";
import { controlNumber } from "../../cluster/replicated-shard.ts";
import {
  AddNodeBody,
  EndClusterBody,
  HandOffBody,
  RemoveNodeBody,
  RepairClusterBody,
} from "../../edge/http/bodies.ts";
import type { BodyOf } from "../../edge/http/json-body.ts";
import { json, route } from "../../edge/http/route.ts";
import { addMember, removeMember } from "./change-members.ts";
import { endCluster } from "./end-cluster.ts";
import { getCluster, getRaftStatus } from "./get-cluster.ts";
import { handOff } from "./hand-off.ts";
import { repairCluster } from "./repair-cluster.ts";

export const clusterRoutes = [
  route({
    method: "GET",
    path: "/v1/codeq/cluster",
    operation: getCluster,
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
    operation: getRaftStatus,
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
    operation: handOff,
    name: "handOff",
    summary: "Have another node lead",
    about:
      "Answers when the next leaders are known. Requests that meet the hand-over are refused with `no_leader` or " +
      "`outcome_unknown`, which the client library retries.",
    refusals: ["invalid_argument", "node_not_ready", "no_leader"],
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
    operation: endCluster,
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
  route({
    method: "POST",
    path: "/v1/codeq/admin/cluster/add",
    operation: addMember,
    name: "addNode",
    summary: "Add a node to the cluster",
    about:
      "Start the new node with the new list of members first. Repeat the request until the state is `added`; the answer " +
      "names the nodes whose `clusterMembers` is still another: change it there, and restart them one after the other.",
    refusals: ["invalid_argument", "no_cluster"],
    replies: { 200: { about: "How far it is.", schema: "AddedNode" } },
    body: AddNodeBody,
    input: ({ body }) => {
      return { ok: true, value: { node: (body as BodyOf<typeof AddNodeBody>).node } };
    },
    reply: ({ state, logs, members, outdated }) => {
      const shown = logs.map((log) => ({ ...log, shard: shardName(log.shard) }));
      return json(JSON.stringify({ state, logs: shown, members: memberText(members), outdated }));
    },
  }),
  route({
    method: "POST",
    path: "/v1/codeq/admin/cluster/remove",
    operation: removeMember,
    name: "removeNode",
    summary: "Take a node out of the cluster",
    about:
      "Hands over what the node leads and has other log servers keep its logs. Repeat the request: stop the node when " +
      "the state is `stop`, until the state is `removed`. A node that is lost is removed at once.",
    refusals: ["invalid_argument", "no_cluster", "too_few_nodes", "no_leader"],
    replies: { 200: { about: "How far it is.", schema: "RemovedNode" } },
    body: RemoveNodeBody,
    input: ({ body }) => {
      return { ok: true, value: { node: (body as BodyOf<typeof RemoveNodeBody>).node } };
    },
    reply: ({ state, moving, members, outdated }) => {
      const shards = moving.map(shardName);
      return json(
        JSON.stringify({ state, moving: shards, members: memberText(members), outdated }),
      );
    },
  }),
  route({
    method: "POST",
    path: "/v1/codeq/admin/cluster/repair",
    operation: repairCluster,
    name: "repairCluster",
    summary: "Repair logs that lost records, and nodes that cannot follow their log",
    about:
      "Says what every node has and what would be done, and does it with `confirm`. Nodes put the data that they give " +
      "up aside; nothing is deleted.",
    refusals: ["invalid_argument"],
    replies: {
      200: {
        about: "What was found and done; nothing for a server alone.",
        schema: "RepairedCluster",
      },
    },
    body: RepairClusterBody,
    input: ({ body }) => {
      const { shard, without, from, confirm } = body as BodyOf<typeof RepairClusterBody>;
      return {
        ok: true,
        value: {
          shard: shard ?? "",
          without: without ?? [],
          from: from ?? "",
          isConfirmed: confirm === true,
        },
      };
    },
    reply: (logs) => json(JSON.stringify({ logs: logs.map(repairFields) })),
  }),
] as const;

function memberText(members: ClusterStatus["nodes"]): string {
  return members.map(({ id, address }) => `${id}=${address}`).join(",");
}

function repairFields({ shard, plan, copies, isDone }: RepairedLog): object {
  const { action } = plan;
  const shown = copies.map(({ node, isFollowing, isDamaged, stored }) => {
    return { node, following: isFollowing, damaged: isDamaged, ...stored };
  });
  return {
    shard: shardName(shard),
    action,
    done: isDone,
    from: action === "renew" ? plan.from : undefined,
    nodes: action === "renew" || action === "copy" ? plan.nodes : undefined,
    why: action === "refused" ? plan.why : undefined,
    copies: shown,
  };
}

function clusterFields(status: ClusterStatus | undefined): object {
  if (status === undefined) return { enabled: false, nodes: [], shards: [] };
  return {
    enabled: true,
    self: status.self.id,
    nodes: status.nodes.map((node) => ({ ...node, url: status.urls.get(node.id) })),
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
  const { self, shards, urls } = status;
  const groups = shards.map(({ shard, leader }) => ({
    shardIdx: shard,
    isLeader: leader?.id === self.id,
    selfId: self.id,
    selfAddr: self.address,
    leaderId: leader?.id ?? "",
    leaderAddr: leader?.address ?? "",
    leaderHTTPAddr: urls.get(leader?.id ?? ""),
    hasLeader: leader !== undefined,
  }));
  return { enabled: true, numGroups: groups.length, groups };
}
