/** What the server says of itself and of its workers. */
import { ask, tenant } from "../api.ts";
import { type Answer, useQuery } from "../query.ts";
import { useStore } from "../store.ts";

export interface Health {
  readonly status: string;
  readonly storage: string;
  readonly durability: string;
  readonly shards?: readonly string[];
  /** On the disk of the data; undefined when the data is in memory. */
  readonly freeBytes?: number;
}

export function useHealth(): Answer<Health> {
  return useQuery("health", () => ask<Health>({ path: "/healthz" }), { everyMs: 5000 });
}

export interface Worker {
  readonly workerId: string;
  readonly leases: number;
  readonly streams: number;
  readonly oldestLeaseAt?: string;
  readonly lastSeenAt?: string;
  readonly connectedAt?: string;
}

export interface Workers {
  readonly workers: readonly Worker[];
  readonly next?: string;
  readonly isPartial?: boolean;
}

export function useWorkers(): Answer<Workers> {
  const of = useStore(tenant);
  const load = (): Promise<Workers> =>
    ask<Workers>({ path: "/v1/codeq/admin/workers", query: { limit: "100" } });
  return useQuery(`workers:${of}`, load, { everyMs: 5000 });
}

export function useTenants(isOperator: boolean): Answer<{ readonly tenants: readonly string[] }> {
  const load = (): Promise<{ tenants: string[] }> => ask({ path: "/v1/codeq/admin/tenants" });
  return useQuery(isOperator ? "tenants" : undefined, load, { everyMs: 30_000 });
}
