/** What this node knows about its cluster: the nodes, and the leader of each shard. */
import type { ClusterStatus } from "../cluster/cluster-node.ts";
import type { Operation, Server } from "./operation.ts";

const run = ({ cluster }: Server) => ({ ok: true, value: cluster?.status }) as const;

/** Undefined for a server alone. */
export const getCluster: Operation<undefined, ClusterStatus | undefined> = {
  name: "get_cluster",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants" },
  run,
};

/** The same for everybody who has a token, as clients of the Go server ask for it. */
export const getRaftStatus: Operation<undefined, ClusterStatus | undefined> = {
  name: "get_raft_status",
  access: "either",
  scope: undefined,
  run,
};
