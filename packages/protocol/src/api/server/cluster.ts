/** A cluster: its state, in our form and in that of the Go server, its nodes and leaders, its repair and its end. */
import { endpoints } from "../../contract/endpoint.ts";
import { count, flag, list, object, text } from "../../contract/shape.ts";

const shard = text("The number of the shard, or `control` for the log of API keys and others.");
const someShard = text("The number of a shard, or `control`; default: all of them.", { none: "" });

const replica = {
  role: text(
    "waiting, following, candidate, opening, leading, steppingDown, behind, ended, diverged or closed.",
  ),
  leader: text("", { isOptional: true }),
  epoch: count("How often the shard has had another leader."),
  slot: count("The last record of the log that this node has read."),
  index: count("How many records of changes it has applied."),
  silentMs: count("How long nothing was heard of the leader."),
  problem: text("Why it does not follow.", { isOptional: true }),
};

const Cluster = object(
  {
    enabled: flag("False for a server alone."),
    self: text("", { isOptional: true }),
    nodes: list(
      object({
        id: text(),
        address: text(),
        url: text("", { isOptional: true }),
        up: flag("Whether the node has answered the node that was asked.", { as: "isUp" }),
        behind: count("How many records of all logs it has not read yet, about.", {
          isOptional: true,
        }),
        problem: text("What is wrong with its copies of the logs.", { isOptional: true }),
      }),
    ),
    logServers: list(
      object({
        name: text("The id of its node."),
        url: text(),
        up: flag("", { as: "isUp" }),
        leading: flag("Whether it leads etcd.", { as: "isLeading" }),
        learning: flag("It copies the data, and does not count for a majority yet.", {
          as: "isLearning",
        }),
        version: text("", { isOptional: true }),
        usedBytes: count("", { isOptional: true }),
        problem: text("What etcd reports.", { isOptional: true }),
      }),
      "The members of etcd, which keep the logs; none for a server alone.",
    ),
    shards: list(object({ shard: count(), ...replica })),
    control: object(replica, {
      about:
        "The control log, for everything that is not a task: API keys, audit records, subscriptions, bulk jobs.",
      isOptional: true,
    }),
    disk: object(
      { freeBytes: count(), minFreeBytes: count("Below this the server refuses writes.") },
      {
        about: "Of the node that answers; left out when its data is in memory.",
        isOptional: true,
      },
    ),
  },
  { name: "Cluster" },
);

const RaftStatus = object(
  {
    enabled: flag(),
    numGroups: count(),
    groups: list(
      object({
        shardIdx: count(),
        isLeader: flag(),
        selfId: text(),
        selfAddr: text(),
        leaderId: text(),
        leaderAddr: text(),
        leaderHTTPAddr: text("", { isOptional: true }),
        hasLeader: flag(),
      }),
      "",
      { isOptional: true },
    ),
  },
  { name: "RaftStatus" },
);

export const HandedOff = object(
  { shard, from: text("The node that led before."), to: text("The node that leads now.") },
  { about: "A log of a cluster, and who leads it." },
);

const newMembers = {
  members: text("What `clusterMembers` is to be on every node."),
  outdated: list(text(), "Nodes that have another list, or did not answer."),
};

export const AddedNode = object(
  {
    state: text("`absent` until the node answers, `copying` until it follows every log.", {
      oneOf: ["absent", "copying", "added"],
    }),
    logs: list(
      object({
        shard,
        role: text("What the new node does."),
        behind: count("How many records it has not read yet, about."),
      }),
    ),
    ...newMembers,
  },
  { name: "AddedNode", about: "How far a new node is." },
);

export const RemovedNode = object(
  {
    state: text("`stop` when the node leads nothing and can be stopped.", {
      oneOf: ["stop", "removed"],
    }),
    ...newMembers,
  },
  { name: "RemovedNode", about: "How far a node is that is taken out of the cluster." },
);

export const RepairBody = object(
  {
    shard: someShard,
    without: list(text(), "Nodes that are permanently lost, with everything that they had.", {
      none: [],
    }),
    from: text("The node whose data counts; default: the newest.", { none: "" }),
    confirm: flag("Whether to repair; default: only say what would be done.", {
      as: "isConfirmed",
      none: false,
    }),
  },
  { isClosed: true, about: "What to repair, and from which copy." },
);

export const RepairedLog = object(
  {
    shard,
    action: text(
      "`copy`: nodes put their data aside and copy that of another; `renew`: a new log continues the data of one node.",
      { oneOf: ["none", "copy", "renew", "refused"] },
    ),
    done: flag("False when it was not confirmed, or is not needed.", { as: "isDone" }),
    from: text("The node whose data is continued.", { isOptional: true }),
    nodes: list(text(), "The nodes that copy.", { isOptional: true }),
    why: text("Why it cannot be repaired.", { isOptional: true }),
    copies: list(
      object({
        node: text(),
        following: flag("", { as: "isFollowing" }),
        damaged: flag("", { as: "isDamaged" }),
        logId: count("Which log its data is from.", { isOptional: true }),
        epoch: count("", { isOptional: true }),
        slot: count("", { isOptional: true }),
      }),
    ),
  },
  { about: "What the nodes have of a log, and what a repair does about it." },
);

export const cluster = endpoints({
  getCluster: {
    key: "GET /cluster",
    access: "viewer",
    summary: "Show the nodes of the cluster, who leads each shard, and the disk of the node",
    replies: { 200: { about: "What this node knows of the cluster.", shape: Cluster } },
  },
  getRaftStatus: {
    key: "GET /raft/status",
    access: "either",
    summary: "Show who leads each shard, in the form of the Go server",
    replies: { 200: { about: "Who leads each shard.", shape: RaftStatus } },
  },
  handOff: {
    key: "POST /admin/cluster/handoff",
    access: "operator",
    summary: "Have another node lead",
    about:
      "Answers when the next leaders are known. Requests that meet the hand-over are refused with `no_leader` or " +
      "`outcome_unknown`, which the client library retries.",
    body: object(
      {
        shard: someShard,
        to: text("The id of the node that is to lead; default: whichever is next.", { none: "" }),
      },
      { isClosed: true },
    ),
    refusals: ["invalid_argument", "node_not_ready", "no_leader"],
    replies: {
      200: {
        about: "The node that leads now; always this one for a single server.",
        shape: object({ shards: list(HandedOff) }, { name: "HandedOff" }),
      },
    },
  },
  endCluster: {
    key: "POST /admin/cluster/end",
    access: "operator",
    summary: "End the cluster, to go back to a server alone",
    about:
      "Every log gets its last record. The cluster accepts nothing afterwards, and each node has everything: stop " +
      "the nodes, and run `codeq cluster leave` on one of them.",
    body: object(
      {
        confirm: flag("Has to be true: the cluster accepts nothing afterwards.", {
          as: "isConfirmed",
          none: false,
        }),
      },
      { isClosed: true },
    ),
    refusals: ["invalid_argument", "no_leader"],
    replies: {
      200: {
        about: "All logs have ended.",
        shape: object({ ended: flag("False for a server alone.") }, { name: "EndedCluster" }),
      },
    },
  },
  addNode: {
    key: "POST /admin/cluster/add",
    access: "operator",
    summary: "Add a node to the cluster",
    about:
      "Start the new node with the new list of members first. Repeat the request until the state is `added`; the answer " +
      "names the nodes whose `clusterMembers` is still another: change it there, and restart them one after the other.",
    body: object(
      {
        node: text("The new node, as in clusterMembers: `id=host:port`.", { isFilled: true }),
      },
      { isClosed: true },
    ),
    refusals: ["invalid_argument", "no_cluster"],
    replies: { 200: { about: "How far it is.", shape: AddedNode } },
  },
  removeNode: {
    key: "POST /admin/cluster/remove",
    access: "operator",
    summary: "Take a node out of the cluster",
    about:
      "Hands over what the node leads. Repeat the request: stop the node when the state is `stop`, until the state is " +
      "`removed`. A node that is lost is removed at once.",
    body: object({ node: text("The id of the node.", { isFilled: true }) }, { isClosed: true }),
    refusals: ["invalid_argument", "no_cluster", "too_few_nodes", "no_leader"],
    replies: { 200: { about: "How far it is.", shape: RemovedNode } },
  },
  repairCluster: {
    key: "POST /admin/cluster/repair",
    access: "operator",
    summary: "Repair logs that lost records, and nodes that cannot follow their log",
    about:
      "Says what every node has and what would be done, and does it with `confirm`. Nodes put the data that they give " +
      "up aside; nothing is deleted.",
    body: RepairBody,
    refusals: ["invalid_argument"],
    replies: {
      200: {
        about: "What was found and done; nothing for a server alone.",
        shape: object({ logs: list(RepairedLog) }, { name: "RepairedCluster" }),
      },
    },
  },
});
