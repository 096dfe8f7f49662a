/**
 * Chooses the buckets that a call counts in: for each scope of the rate limits one bucket of the subject and
 * one of its tenant, so that another token is no way around a limit; and one bucket for all requests of a
 * tenant that has a quota of requests. A subject keeps its bucket whichever token it uses.
 */
import { hash } from "node:crypto";
import type { Clock } from "../clock.ts";
import { quotaOf } from "../config/quotas.ts";
import { type RateScope, rateScopes } from "../config/rate-limit-settings.ts";
import type { Config } from "../config/settings.ts";
import { Allowance, type NamedBucket } from "./allowance.ts";
import { Buckets } from "./buckets.ts";
import type { BucketPolicy } from "./token-bucket.ts";

/** Who is counted; for callbacks the subject is where they go. */
export interface Counted {
  readonly tenantId: string;
  readonly subject: string;
}

/** Longer names are held as their hash. */
const keyCharsMax = 128;

interface Limit {
  readonly policy: BucketPolicy;
  readonly buckets: Buckets;
}

interface ScopeLimits {
  readonly own: Limit | undefined;
  readonly tenant: Limit | undefined;
}

export class Limiter {
  readonly #clock: Clock;
  readonly #config: Config;
  readonly #scopes: ReadonlyMap<RateScope, ScopeLimits>;
  readonly #requests: Buckets = new Buckets();
  /** The policies of the quotas: made once, because the buckets tell them apart by identity. */
  readonly #requestPolicies: Map<number, BucketPolicy> = new Map();
  readonly #hasRequestQuotas: boolean;

  constructor(config: Config, clock: Clock) {
    this.#clock = clock;
    this.#config = config;
    const scopes = rateScopes.map((scope) => [scope, scopeLimits(config, scope)] as const);
    this.#scopes = new Map(scopes.filter(([, { own, tenant }]) => own ?? tenant));
    const { quotas } = config;
    this.#hasRequestQuotas = [quotas.default, ...quotas.tenants.values()].some(
      ({ requestsPerSecond }) => requestsPerSecond !== Number.POSITIVE_INFINITY,
    );
  }

  /** Undefined when nothing limits the scope. */
  of(scope: RateScope, who: Counted): Allowance | undefined {
    const limits = this.#scopes.get(scope);
    if (limits === undefined) return undefined;
    const { own, tenant } = limits;
    const nowMs = this.#clock.monotonicMs();
    const named: NamedBucket[] = [];
    if (own !== undefined) {
      const bucket = own.buckets.of(keyOf(who), own.policy, nowMs);
      named.push({ name: "token", bucket });
    }
    if (tenant !== undefined) {
      const bucket = tenant.buckets.of(who.tenantId, tenant.policy, nowMs);
      named.push({ name: "tenant", bucket });
    }
    return new Allowance(named, this.#clock);
  }

  /** Undefined when the tenant may send as many requests as it likes. */
  requestsOf(tenantId: string): Allowance | undefined {
    if (!this.#hasRequestQuotas) return undefined;
    const perSecond = quotaOf(this.#config.quotas, tenantId).requestsPerSecond;
    if (perSecond === Number.POSITIVE_INFINITY) return undefined;
    const policy = this.#requestPolicy(perSecond);
    const bucket = this.#requests.of(tenantId, policy, this.#clock.monotonicMs());
    return new Allowance([{ name: "requests", bucket }], this.#clock);
  }

  /** How many buckets are held for a scope. */
  bucketsOf(scope: RateScope): number {
    const { own, tenant } = this.#scopes.get(scope) ?? {};
    return (own?.buckets.size ?? 0) + (tenant?.buckets.size ?? 0);
  }

  #requestPolicy(perSecond: number): BucketPolicy {
    const policy = this.#requestPolicies.get(perSecond) ?? {
      perMinute: perSecond * 60,
      burst: perSecond,
    };
    this.#requestPolicies.set(perSecond, policy);
    return policy;
  }
}

const webhookRates = [
  "rateLimit.webhook.requestsPerMinute",
  "rateLimit.webhook.burstSize",
  "rateLimit.webhook.tenantRequestsPerMinute",
  "rateLimit.webhook.tenantBurstSize",
] as const;

/**
 * For the callbacks of one of several shards that know nothing of each other: each has its share, so
 * that all of them together send no more than one would. A share is one at least.
 */
export function webhookLimiterOfShard(config: Config, clock: Clock): Limiter {
  const shares = webhookRates.map((name) => {
    // Without a limit it stays without one.
    const isLimited = config[name] > 0;
    return [name, isLimited ? Math.max(1, Math.floor(config[name] / config.shards)) : 0];
  });
  return new Limiter({ ...config, ...Object.fromEntries(shares) }, clock);
}

function scopeLimits(config: Config, scope: RateScope): ScopeLimits {
  return {
    own: limitOf(
      config[`rateLimit.${scope}.requestsPerMinute`],
      config[`rateLimit.${scope}.burstSize`],
    ),
    tenant: limitOf(
      config[`rateLimit.${scope}.tenantRequestsPerMinute`],
      config[`rateLimit.${scope}.tenantBurstSize`],
    ),
  };
}

/** In force only when both numbers are set. */
function limitOf(perMinute: number, burst: number): Limit | undefined {
  if (perMinute === 0 || burst === 0) return undefined;
  return { policy: { perMinute, burst }, buckets: new Buckets() };
}

/** A tenant contains no slash, so that no two pairs have the same key. */
function keyOf({ tenantId, subject }: Counted): string {
  const key = `${tenantId}/${subject}`;
  return key.length > keyCharsMax ? hash("sha256", key) : key;
}
