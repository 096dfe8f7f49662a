/**
 * The quotas of tenants. There is a default for all tenants; a tenant may have its own numbers, and the
 * default applies to those it does not name.
 */
import { limits } from "@codeq/protocol";
import { isRecord, readJson, unknownFields } from "./blobs.ts";
import { type Parsed, type Parser, parsed, refused, wholeNumber } from "./parsers.ts";

/** Infinity is no limit. */
export interface TenantQuota {
  /** Tasks that wait to be claimed, also those whose time has not come. */
  readonly pendingTasks: number;
  /** Bytes of payloads and results. */
  readonly storedBytes: number;
  readonly requestsPerSecond: number;
  readonly concurrentLeases: number;
}

export type QuotaName = keyof TenantQuota;

/** What a tenant has and may not have more of. */
export interface Exceeded {
  readonly quota: QuotaName;
  readonly limit: number;
  readonly current: number;
}

export interface Quotas {
  readonly default: TenantQuota;
  readonly tenants: ReadonlyMap<string, TenantQuota>;
}

/** The highest number that may be written for each. */
const maxima: TenantQuota = {
  pendingTasks: 1_000_000_000_000,
  storedBytes: 500_000_000_000_000,
  requestsPerSecond: 1_000_000,
  concurrentLeases: 1_000_000_000,
};
const quotaNames = Object.keys(maxima) as QuotaName[];
const tenantsMax = 10_000;

const unlimited: TenantQuota = {
  pendingTasks: Number.POSITIVE_INFINITY,
  storedBytes: Number.POSITIVE_INFINITY,
  requestsPerSecond: Number.POSITIVE_INFINITY,
  concurrentLeases: Number.POSITIVE_INFINITY,
};

export const noQuotas: Quotas = { default: unlimited, tenants: new Map() };

export function quotaOf(quotas: Quotas, tenantId: string): TenantQuota {
  return quotas.tenants.get(tenantId) ?? quotas.default;
}

/** In words, for the listing of what is in force. */
export function describeQuotas({ default: all, tenants }: Quotas): string {
  const written = quotaNames
    .filter((name) => all[name] !== Number.POSITIVE_INFINITY)
    .map((name) => `${name} ${all[name]}`);
  if (tenants.size > 0) written.push(`${tenants.size} with their own quotas`);
  return written.join(", ");
}

export const quotasBlob: Parser<Quotas> = {
  accepts: "a map or JSON object with default and tenants",
  example: '{"default":{"pendingTasks":100000}}',
  parse(raw) {
    const value = readJson(raw);
    if (!isRecord(value)) return refused(`expected ${this.accepts}`);
    const unknown = unknownFields(value, ["default", "tenants"]);
    if (unknown !== undefined) return refused(unknown);
    const all = readQuota("default", value["default"] ?? {}, unlimited);
    if (!all.ok) return all;
    const tenants = readTenants(value["tenants"] ?? {}, all.value);
    return tenants.ok ? parsed({ default: all.value, tenants: tenants.value }) : tenants;
  },
};

function readTenants(raw: unknown, all: TenantQuota): Parsed<Map<string, TenantQuota>> {
  if (!isRecord(raw)) return refused("tenants: expected a map of tenants");
  const found = new Map<string, TenantQuota>();
  const entries = Object.entries(raw);
  if (entries.length > tenantsMax) return refused(`tenants: expected at most ${tenantsMax}`);
  for (const [tenant, value] of entries) {
    if (!limits.tenantPattern.test(tenant)) {
      return refused(`tenants: ${JSON.stringify(tenant.slice(0, 64))} is not a valid tenant`);
    }
    const quota = readQuota(`tenants.${tenant}`, value ?? {}, all);
    if (!quota.ok) return quota;
    found.set(tenant, quota.value);
  }
  return parsed(found);
}

/** What is not written is as in `otherwise`. */
function readQuota(path: string, raw: unknown, otherwise: TenantQuota): Parsed<TenantQuota> {
  if (!isRecord(raw)) return refused(`${path}: expected a map with ${quotaNames.join(", ")}`);
  const unknown = unknownFields(raw, quotaNames);
  if (unknown !== undefined) return refused(`${path}: ${unknown}`);
  const quota: Record<QuotaName, number> = { ...otherwise };
  for (const name of quotaNames) {
    const written = raw[name];
    if (written === undefined || written === null) continue;
    const number = wholeNumber(0, maxima[name], 0).parse(written);
    if (!number.ok) return refused(`${path}.${name}: ${number.problem}`);
    quota[name] = number.value === 0 ? Number.POSITIVE_INFINITY : number.value;
  }
  return parsed(quota);
}

/** Whether there is any quota at all. */
export function isLimited({ default: all, tenants }: Quotas): boolean {
  return [all, ...tenants.values()].some((quota) =>
    Object.values(quota).some((most) => most !== Number.POSITIVE_INFINITY),
  );
}
