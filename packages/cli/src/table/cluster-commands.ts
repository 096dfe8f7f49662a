/** The commands about clusters. */
import type { CommandRow } from "../command.ts";
import { yes } from "../shared-options.ts";

export const clusterCommands: readonly CommandRow[] = [
  {
    name: "cluster status",
    group: "check",
    about:
      "Shows the nodes of a cluster and who leads each shard. Ends with 9 when nobody leads one.",
    connects: true,
    examples: [
      { line: "cluster status --base-url http://10.0.0.2:8080", about: "as one node sees it" },
    ],
    run: async (call) => (await import("../commands/cluster.ts")).status(call),
  },
  {
    name: "cluster handoff",
    group: "check",
    about: "Makes another node the leader, for example before a machine is stopped.",
    details: [
      "Needs the token of an operator. Any node can be asked. Clients see a pause of well under a second.",
    ],
    options: [
      {
        name: "shard",
        value: "number",
        about: "Only this shard, or `control` for the log of API keys (default: all).",
      },
      {
        name: "to",
        value: "node",
        about: "The node that is to lead (default: whichever is next).",
      },
    ],
    connects: true,
    examples: [
      { line: "cluster handoff --to b", about: "have node b lead everything" },
      { line: "cluster handoff --shard 0", about: "have another node lead shard 0" },
    ],
    run: async (call) => (await import("../commands/cluster.ts")).handOff(call),
  },
  {
    name: "cluster add",
    group: "check",
    about: "Adds a node to a cluster: shows how far the node is, and what is left to do.",
    details: [
      "Needs the token of an operator. Start the new node with the new clusterMembers; this command waits until the",
      "node has copied all data. Then set the same clusterMembers on the other nodes, and restart them one by one.",
    ],
    arguments: [{ name: "node", about: "The node as in clusterMembers: id=host:port." }],
    connects: true,
    examples: [{ line: "cluster add d=10.0.0.4:7000", about: "add node d" }],
    run: async (call) => (await import("../commands/cluster-members.ts")).add(call),
  },
  {
    name: "cluster remove",
    group: "check",
    about: "Takes a node out of a cluster, also one whose machine is lost.",
    details: [
      "Needs the token of an operator. Hands over what the node leads, has other log servers keep its logs, and",
      "waits until the node is stopped. Refuses when too few nodes would be left: add another node first.",
    ],
    arguments: [{ name: "node", about: "The id of the node." }],
    connects: true,
    examples: [{ line: "cluster remove c", about: "take node c out" }],
    run: async (call) => (await import("../commands/cluster-members.ts")).remove(call),
  },
  {
    name: "cluster repair",
    group: "check",
    about: "Repairs a cluster whose log lost records, and nodes that stopped with diverged.",
    details: [
      "Needs the token of an operator. Shows what every node has and what would be done; --yes does it. Nodes put the",
      "data that they give up aside, in replicas/*.before-repair-*; delete these folders when the cluster works.",
    ],
    options: [
      {
        name: "shard",
        value: "number",
        about: "Only this shard, or `control` for the log of API keys (default: all).",
      },
      {
        name: "without",
        value: "node",
        multiple: true,
        about: "A node that is permanently lost, with everything that it had. May be repeated.",
      },
      { name: "from", value: "node", about: "The node whose data counts (default: the newest)." },
      yes,
    ],
    connects: true,
    examples: [
      { line: "cluster repair", about: "show what is wrong" },
      { line: "cluster repair --yes", about: "repair it" },
    ],
    run: async (call) => (await import("../commands/cluster-repair.ts")).repair(call),
  },
  {
    name: "cluster init",
    group: "check",
    about:
      "Converts the data directory of a single server into that of the first node of a cluster.",
    details: [
      "Needs a stopped server and as much free space as the data takes. The old files are kept in",
      "before-cluster. Then start this node with clusterBootstrap; the other nodes copy the data from it.",
    ],
    serverFlags: "accepted",
    examples: [{ line: "cluster init --data-dir /var/lib/codeq", about: "on the stopped server" }],
    run: async (call) => (await import("../commands/cluster-data.ts")).init(call),
  },
  {
    name: "cluster end",
    group: "check",
    about:
      "Ends a cluster, to go back to a single server. The cluster accepts no changes afterwards.",
    details: [
      "Needs the token of an operator. Every node has everything then: stop all nodes, and run",
      "codeq cluster leave on one of them.",
    ],
    options: [yes],
    connects: true,
    examples: [{ line: "cluster end --yes", about: "end the cluster" }],
    run: async (call) => (await import("../commands/cluster.ts")).end(call),
  },
  {
    name: "cluster leave",
    group: "check",
    about:
      "Converts the data directory of a node into that of a single server, after codeq cluster end.",
    details: [
      "Needs a stopped node and as much free space as the data takes. The old files are kept in",
      "before-alone. Then start the server without the settings of the cluster.",
    ],
    serverFlags: "accepted",
    examples: [{ line: "cluster leave --data-dir /var/lib/codeq", about: "on the stopped node" }],
    run: async (call) => (await import("../commands/cluster-data.ts")).leave(call),
  },
];
