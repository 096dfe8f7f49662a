/** What the server says of itself and of its workers. */
import type { ReplyOf } from "@codeq/protocol";
import { ask, callOf } from "../api.ts";
import { type Answer, useAnswer, useQuery } from "../query.ts";

export interface Health {
  readonly status: string;
  readonly storage: string;
  readonly durability: string;
  readonly shards?: readonly string[];
}

export function useHealth(): Answer<Health> {
  return useAnswer("health", { path: "/healthz" });
}

/** The copy of a shard on the node that answered, and who leads the shard. */
export interface ReplicaState {
  readonly role: string;
  readonly epoch: number;
  readonly slot: number;
  readonly index: number;
  readonly silentMs: number;
  readonly leader?: string;
  readonly problem?: string;
}

export interface Disk {
  readonly freeBytes: number;
  /** Below this the server refuses writes. */
  readonly minFreeBytes: number;
}

export interface ClusterState {
  readonly enabled: boolean;
  readonly self?: string;
  readonly nodes: readonly { readonly id: string; readonly address: string }[];
  readonly shards: readonly (ReplicaState & { readonly shard: number })[];
  readonly control?: ReplicaState;
  /** Of the node that answered; undefined when its data is in memory. */
  readonly disk?: Disk;
}

export function useCluster(): Answer<ClusterState> {
  return useAnswer("cluster", { path: "/v1/codeq/cluster" });
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
