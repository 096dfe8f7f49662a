/** The commands about clusters. */
import type { CommandRow } from "../command.ts";
import { yes } from "../shared-options.ts";
import { commandsOf } from "./commands-of.ts";

export const clusterCommands: readonly CommandRow[] = [
  ...commandsOf({ group: "check" }, () => import("../commands/cluster.ts"), {
    "cluster status": {
      about:
        "Shows the nodes of a cluster and the leader of each shard. Ends with 9 when a shard has no leader.",
      examples: [
        { line: "cluster status --base-url http://10.0.0.2:8080", about: "as one node sees it" },
      ],
    },
    "cluster handoff": {
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
      examples: [
        { line: "cluster handoff --to b", about: "have node b lead everything" },
        { line: "cluster handoff --shard 0", about: "have another node lead shard 0" },
      ],
    },
    "cluster add": {
      about: "Adds a node to a cluster: shows how far the node is, and what is left to do.",
      details: [
        "Needs the token of an operator. Start the new node with the new clusterMembers; this command waits until the",
        "node has copied all data. Then set the same clusterMembers on the other nodes, and restart them one by one.",
      ],
      arguments: [{ name: "node", about: "The node as in clusterMembers: id=host:port." }],
      examples: [{ line: "cluster add d=10.0.0.4:7000", about: "add node d" }],
    },
    "cluster remove": {
      about: "Takes a node out of a cluster, also one whose machine is lost.",
      details: [
        "Needs the token of an operator. Hands over what the node leads, waits until the node is stopped, and then takes",
        "its log server out. Refuses when too few nodes would be left: add another node first.",
      ],
      arguments: [{ name: "node", about: "The id of the node." }],
      examples: [{ line: "cluster remove c", about: "take node c out" }],
    },
    "cluster replace": {
      about: "Replaces a node whose machine is lost by a new one.",
      details: [
        "Needs the token of an operator. Does what codeq cluster remove and then codeq cluster add do.",
      ],
      arguments: [
        { name: "lost", about: "The id of the node that is lost." },
        { name: "node", about: "The new node as in clusterMembers: id=host:port." },
      ],
      examples: [{ line: "cluster replace c d=10.0.0.4:7000", about: "d takes the place of c" }],
    },
    "cluster repair": {
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
      examples: [
        { line: "cluster repair", about: "show what is wrong" },
        { line: "cluster repair --yes", about: "repair it" },
      ],
    },
    "cluster init": {
      about:
        "Converts the data directory of a single server into that of the first node of a cluster.",
      details: [
        "Needs a stopped server and as much free space as the data takes. The old files are kept in",
        "before-cluster. Then start this node with its id as clusterBootstrap; the other nodes copy the data from it.",
      ],
      serverFlags: "accepted",
      examples: [
        { line: "cluster init --data-dir /var/lib/codeq", about: "on the stopped server" },
      ],
    },
    "cluster end": {
      about:
        "Ends a cluster, to go back to a single server. The cluster accepts no changes afterwards.",
      details: [
        "Needs the token of an operator. Every node has everything then: stop all nodes, and run",
        "codeq cluster leave on one of them.",
      ],
      options: [yes],
      examples: [{ line: "cluster end --yes", about: "end the cluster" }],
    },
    "cluster leave": {
      about:
        "Converts the data directory of a node into that of a single server, after codeq cluster end.",
      details: [
        "Needs a stopped node and as much free space as the data takes. The old files are kept in",
        "before-alone. Then start the server without the settings of the cluster.",
      ],
      serverFlags: "accepted",
      examples: [{ line: "cluster leave --data-dir /var/lib/codeq", about: "on the stopped node" }],
    },
  }),
];
