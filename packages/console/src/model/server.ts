/** The state of the server, its cluster, workers and tenants. */
import type { ReplyOf } from "@codeq/protocol";
import { ask, callOf } from "../api.ts";
import { type Answer, useAnswer, useQuery } from "../query.ts";

export interface Health {
  readonly status: string;
  readonly storage: string;
  readonly durability: string;
  readonly shards?: readonly string[];
}

export const healthCall = { path: "/healthz" } as const;

export function useHealth(): Answer<Health> {
  return useAnswer("health", healthCall);
}

export type ClusterState = ReplyOf<"GET /cluster">;
/** The copy of a shard on the node that answered, and who leads the shard. */
export type ReplicaState = NonNullable<ClusterState["control"]>;
export type Disk = NonNullable<ClusterState["disk"]>;

export function useCluster(): Answer<ClusterState> {
  return useAnswer("cluster", callOf("GET /cluster"));
}

export type Workers = ReplyOf<"GET /admin/workers">;
export type Worker = Workers["workers"][number];

export function useWorkers(): Answer<Workers> {
  return useAnswer("workers", callOf("GET /admin/workers", { query: { limit: 100 } }));
}

export function useTenants(isOperator: boolean): Answer<ReplyOf<"GET /admin/tenants">> {
  const load = () => ask(callOf("GET /admin/tenants"));
  return useQuery(isOperator ? "tenants" : undefined, load, { everyMs: 30_000 });
}
