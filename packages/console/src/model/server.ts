/** The state of the server, its cluster, workers and tenants. */
import type { ReplyOf, WireOf } from "@codeq/protocol";
import type { Health as HealthShape } from "@codeq/protocol/api";
import { ask, callOf, type Request } from "../api.ts";
import { type Answer, useAnswer, useQuery } from "../query.ts";

export type Health = WireOf<typeof HealthShape>;
export const healthCall: Request<Health> = { path: "/healthz" };

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
