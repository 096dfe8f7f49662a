import assert from "node:assert/strict";
import { test } from "node:test";
import type { LeaderName } from "@codeq/engine";
import type { LogStatus, ReplicaReport } from "../node-log.ts";
import {
  addNode,
  type LogServer,
  type MembershipParts,
  type NodeReport,
  notReady,
  removeNode,
} from "./membership.ts";

const nodes = ["a", "b", "c"].map(named);
const d = named("d");

function named(id: string): LeaderName {
  return { id, address: `${id}.example:7000` };
}

interface Cluster {
  parts: MembershipParts;
  readonly done: string[];
  /** What each node answers; those that are not there do not. */
  readonly reports: Map<string, NodeReport>;
  servers: LogServer[] | undefined;
  leader: string;
}

function online(name: string): LogServer {
  return { name, isOnline: true, isLearner: false };
}

/** Servers of which this one is down. */
function without(id: string, servers: LogServer[] | undefined): LogServer[] | undefined {
  return servers?.map((each) => (each.name === id ? { ...each, isOnline: false } : each));
}

function reportOf(
  id: string,
  role: ReplicaReport["role"] = "following",
  members = nodes,
): NodeReport {
  const stored = { logId: 7, epoch: 1, slot: 40 };
  return { id, members, logs: [{ shard: 0, role, stored, isDamaged: false, problem: undefined }] };
}

/** Asked at node a. */
function setup(): Cluster {
  const done: string[] = [];
  const reports = new Map(nodes.map(({ id }) => [id, reportOf(id)]));
  const cluster: Cluster = {
    done,
    reports,
    servers: nodes.map(({ id }) => online(id)),
    leader: "a",
    parts: {
      self: named("a"),
      nodes,
      logs: [0],
      statusOf: () => ({ role: "following", slot: 50, leader: named(cluster.leader) }) as LogStatus,
      report: async ({ id }) => reports.get(id),
      handOff: async ({ shard, to }) => {
        done.push(`hand over ${shard} to ${to}`);
        cluster.leader = to ?? "";
        return [];
      },
      logServers: {
        servers: async () => cluster.servers,
        removeServer: async (server) => {
          done.push(`remove ${server}`);
          cluster.servers = cluster.servers?.filter(({ name }) => name !== server);
        },
      },
    },
  };
  return cluster;
}

/** With d as a fourth node that is in. */
function setupFour(): Cluster {
  const cluster = setup();
  cluster.servers?.push(online("d"));
  cluster.reports.set("d", reportOf("d", "following", [...nodes, d]));
  cluster.parts = { ...cluster.parts, nodes: [...nodes, d] };
  return cluster;
}

test("a node is added when it follows every log and its log server is there", async () => {
  const cluster = setup();
  const state = async (): Promise<unknown> => {
    const added = await addNode(cluster.parts, d);
    return "state" in added ? added.state : added.why;
  };
  assert.equal(await state(), "absent");
  cluster.reports.set("d", reportOf("d", "waiting"));
  assert.equal(await state(), "copying");
  cluster.reports.set("d", reportOf("d", "following", [...nodes, d]));
  assert.equal(await state(), "copying", "its log server is missing");
  cluster.servers?.push(online("d"));
  const added = await addNode(cluster.parts, d);
  assert.ok("state" in added);
  assert.equal(added.state, "added");
  assert.deepEqual(added.outdated, ["a", "b", "c"], "they do not know it yet");
  assert.deepEqual(added.logs, [{ shard: 0, role: "following", behind: 10 }]);
});

test("a node that takes the place of a removed one is listed without it", async () => {
  const cluster = setup();
  cluster.reports.delete("c");
  const listed = async (): Promise<readonly string[]> => {
    const added = await addNode(cluster.parts, d);
    return "members" in added ? added.members.map(({ id }) => id) : [];
  };
  assert.deepEqual(await listed(), ["a", "b", "c", "d"], "it may come back");
  cluster.servers = cluster.servers?.filter(({ name }) => name !== "c");
  assert.deepEqual(await listed(), ["a", "b", "d"]);
  cluster.reports.set("c", reportOf("c"));
  assert.deepEqual(await listed(), ["a", "b", "c", "d"], "its log server is about to come back");
  cluster.reports.delete("c");
  cluster.servers = undefined;
  assert.deepEqual(await listed(), ["a", "b", "c", "d"], "codeQ does not run the log servers");
});

test("a node whose log server only copies is not in yet", async () => {
  const cluster = setupFour();
  cluster.servers = cluster.servers?.map((each) => ({ ...each, isLearner: each.name === "d" }));
  const added = await addNode(cluster.parts, d);
  assert.equal("state" in added && added.state, "copying");
});

test("refuses a node with the id or address of another", async () => {
  const { parts, reports } = setup();
  const why = async (node: LeaderName): Promise<string> => {
    const answer = await addNode(parts, node);
    return "why" in answer ? answer.why : answer.state;
  };
  assert.match(await why({ id: "a", address: d.address }), /a=a.example:7000 is a node/);
  assert.match(await why({ id: "x", address: "a.example:7000" }), /a=a.example:7000 is a node/);
  reports.set("d", reportOf("other"));
  assert.match(await why(d), /has nodeId other, not d/);
});

test("a node hands over, and it is out when it was stopped", async () => {
  const cluster = setupFour();
  cluster.leader = "c";
  const state = async (): Promise<unknown> => {
    const removed = await removeNode(cluster.parts, "c");
    return "state" in removed ? removed.state : removed.why;
  };
  assert.equal(await state(), "stop");
  assert.deepEqual(cluster.done, ["hand over 0 to a"]);
  assert.equal(await state(), "stop");
  cluster.reports.delete("c");
  cluster.servers = without("c", cluster.servers);
  const removed = await removeNode(cluster.parts, "c");
  assert.ok("state" in removed);
  assert.equal(removed.state, "removed");
  assert.deepEqual(cluster.done.slice(1), ["remove c"]);
  assert.deepEqual(removed.outdated, ["a", "b", "d"]);
});

test("a lost node of three is removed at once, while the other two are a majority", async () => {
  const cluster = setup();
  cluster.reports.delete("c");
  cluster.servers = without("c", cluster.servers);
  const removed = await removeNode(cluster.parts, "c");
  assert.equal("state" in removed && removed.state, "removed");
  assert.deepEqual(cluster.done, ["remove c"]);
  const worse = setup();
  worse.reports.delete("c");
  worse.servers = without("b", without("c", worse.servers));
  const refused = await removeNode(worse.parts, "c");
  assert.match(
    "why" in refused ? refused.why : "",
    /1 of 2 log servers are up, which is no majority/,
  );
});

test("a node is not removed when too little is left", async () => {
  const code = async (cluster: Cluster, id = "c"): Promise<string> => {
    const answer = await removeNode(cluster.parts, id);
    return "why" in answer ? `${answer.code}: ${answer.why}` : answer.state;
  };
  assert.match(await code(setup()), /^too_few_nodes: without c there are 2 log servers/);
  const only = setupFour();
  for (const id of ["a", "b", "d"]) only.reports.set(id, reportOf(id, "waiting"));
  assert.match(await code(only), /^too_few_nodes: no other node has a whole copy of shard 0/);
  assert.match(await code(setupFour(), "a"), /^invalid_argument: node a cannot remove itself/);
  assert.match(await code(setupFour(), "x"), /^invalid_argument: there is no node x/);
});

test("log servers of somebody else are left alone", async () => {
  const cluster = setup();
  cluster.servers = undefined;
  cluster.reports.delete("c");
  const removed = await removeNode(cluster.parts, "c");
  assert.equal("state" in removed && removed.state, "removed");
  assert.deepEqual(cluster.done, []);
});

test("a node that does not answer, or does not follow a log, cannot lead it", () => {
  assert.equal(notReady("b", reportOf("b"), [0]), undefined);
  assert.match(notReady("b", undefined, [0])?.why ?? "", /b does not answer\. Start it/);
  assert.match(notReady("b", reportOf("b", "behind"), [0])?.why ?? "", /b does not follow shard 0/);
  assert.match(notReady("b", reportOf("b"), [0, 1])?.why ?? "", /b does not follow shard 1/);
});
