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
    about:
      "Has another node lead, before a machine is stopped or to put leaders where they belong.",
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
    name: "cluster init",
    group: "check",
    about: "Makes the data directory of a server alone that of the first node of a cluster.",
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
    about: "Ends a cluster, to go back to a server alone. It accepts nothing afterwards.",
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
    about: "Makes the data directory of a node that of a server alone, after codeq cluster end.",
    details: [
      "Needs a stopped node and as much free space as the data takes. The old files are kept in",
      "before-alone. Then start the server without the settings of the cluster.",
    ],
    serverFlags: "accepted",
    examples: [{ line: "cluster leave --data-dir /var/lib/codeq", about: "on the stopped node" }],
    run: async (call) => (await import("../commands/cluster-data.ts")).leave(call),
  },
];
