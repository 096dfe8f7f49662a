/**
 * The quotas of tenants. There is a default for all tenants; a tenant may have its own numbers, and the
 * default applies to those it does not name.
 */
import { isRecord, type PerTenant, perTenant, unknownFields } from "./blobs.ts";
import { type Parsed, type Parser, parsed, refused, wholeNumber } from "./parsers.ts";

/** Infinity is no limit. */
export interface TenantQuota {
  /** Tasks that wait to be claimed, including delayed tasks. */
  readonly pendingTasks: number;
  /** Bytes of payloads and results. */
  readonly storedBytes: number;
  readonly requestsPerSecond: number;
  readonly concurrentLeases: number;
  /** Queues that have tasks. Each shard counts its own. */
  readonly queues: number;
  /** Lanes that are in memory, because they have ready tasks, leases, or a time to wait for. Each shard counts its own. */
  readonly lanes: number;
}

export type QuotaName = keyof TenantQuota;

/** A quota that is used up, with its limit and the current value. */
export interface Exceeded {
  readonly quota: QuotaName;
  readonly limit: number;
  readonly current: number;
}

export type Quotas = PerTenant<TenantQuota>;

/** The largest value that each quota accepts. */
const maxima: TenantQuota = {
  pendingTasks: 1_000_000_000_000,
  storedBytes: 500_000_000_000_000,
  requestsPerSecond: 1_000_000,
  concurrentLeases: 1_000_000_000,
  queues: 1_000_000,
  lanes: 100_000_000,
};
const quotaNames = Object.keys(maxima) as QuotaName[];

const unlimited: TenantQuota = {
  pendingTasks: Number.POSITIVE_INFINITY,
  storedBytes: Number.POSITIVE_INFINITY,
  requestsPerSecond: Number.POSITIVE_INFINITY,
  concurrentLeases: Number.POSITIVE_INFINITY,
  queues: Number.POSITIVE_INFINITY,
  lanes: Number.POSITIVE_INFINITY,
};

/** Lists, metrics and restarts take time and memory for each queue and lane, so their number has a limit by default. */
const initial: TenantQuota = { ...unlimited, queues: 10_000, lanes: 100_000 };

export const noQuotas: Quotas = { default: unlimited, tenants: new Map() };
export const initialQuotas: Quotas = { default: initial, tenants: new Map() };

export function quotaOf(quotas: Quotas, tenantId: string): TenantQuota {
  return quotas.tenants.get(tenantId) ?? quotas.default;
}

/** The quotas as text, for the listing of the configuration. */
export function describeQuotas({ default: all, tenants }: Quotas): string {
  const written = quotaNames
    .filter((name) => all[name] !== initial[name])
    .map((name) => `${name} ${all[name]}`);
  if (tenants.size > 0) written.push(`${tenants.size} with their own quotas`);
  return written.join(", ");
}

export const quotasBlob: Parser<Quotas> = perTenant({
  example: '{"default":{"pendingTasks":100000}}',
  readDefault: (raw) => readQuota("default", raw, initial),
  readTenant: readQuota,
  nameEntry: (tenant) => JSON.stringify(tenant.slice(0, 64)),
});

/** Numbers that are not written are taken from `otherwise`. */
function readQuota(path: string, written: unknown, otherwise: TenantQuota): Parsed<TenantQuota> {
  const raw = written ?? {};
  if (!isRecord(raw)) return refused(`${path}: expected a map with ${quotaNames.join(", ")}`);
  const unknown = unknownFields(raw, quotaNames);
  if (unknown !== undefined) return refused(`${path}: ${unknown}`);
  const quota: Record<QuotaName, number> = { ...otherwise };
  for (const name of quotaNames) {
    const value = raw[name];
    if (value === undefined || value === null) continue;
    const number = wholeNumber(0, maxima[name], 0).parse(value);
    if (!number.ok) return refused(`${path}.${name}: ${number.problem}`);
    quota[name] = number.value === 0 ? Number.POSITIVE_INFINITY : number.value;
  }
  return parsed(quota);
}

const { queues, lanes } = unlimited;
/** What each shard counts by itself. */
const ownOfShards = { queues, lanes };

/** Whether there is any quota that counts over all shards. */
export function isLimited({ default: all, tenants }: Quotas): boolean {
  return [all, ...tenants.values()].some((quota) =>
    Object.values({ ...quota, ...ownOfShards }).some((most) => most !== Number.POSITIVE_INFINITY),
  );
}

/** The quotas that one of several shards checks by itself. */
export function quotasOfShard({ default: all, tenants }: Quotas): Quotas {
  const own = (of: TenantQuota): TenantQuota => ({
    ...unlimited,
    queues: of.queues,
    lanes: of.lanes,
  });
  return {
    default: own(all),
    tenants: new Map([...tenants].map(([tenant, quota]) => [tenant, own(quota)])),
  };
}
