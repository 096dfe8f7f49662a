/** What this node knows about its cluster: the nodes, the leader of each shard, and its own disk. */
import type { ClusterStatus } from "../../cluster/cluster-node.ts";
import type { Operation } from "../../edge/operation.ts";

export interface ClusterView {
  /** Undefined for a server alone. */
  readonly status: ClusterStatus | undefined;
  /** Undefined when the data is in memory. */
  readonly disk: { readonly freeBytes: number; readonly minFreeBytes: number } | undefined;
}

export const getCluster: Operation<undefined, ClusterView> = {
  name: "get_cluster",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants" },
  run: async ({ cluster, freeBytes: ask, config }) => {
    const freeBytes = await ask();
    const disk = { freeBytes, minFreeBytes: config.minFreeDiskBytes };
    const value = {
      status: cluster?.status,
      disk: Number.isFinite(freeBytes) ? disk : undefined,
    };
    return { ok: true, value };
  },
};

/** The same for everybody who has a token, as clients of the Go server ask for it. */
export const getRaftStatus: Operation<undefined, ClusterStatus | undefined> = {
  name: "get_raft_status",
  access: "either",
  scope: undefined,
  run: ({ cluster }) => ({ ok: true, value: cluster?.status }),
};
