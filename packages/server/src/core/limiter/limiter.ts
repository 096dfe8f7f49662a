/**
 * Chooses the buckets that a call counts in: for each scope of the rate limits one bucket of the subject and
 * one of its tenant, so that another token is no way around a limit; and one bucket for all requests of a
 * tenant that has a quota of requests. A subject keeps its bucket whichever token it uses.
 */
import { hash } from "node:crypto";
import { quotaOf } from "../../config/quotas.ts";
import { type RateScope, rateScopes } from "../../config/rate-limit-settings.ts";
import type { Config } from "../../config/settings.ts";
import type { Clock } from "../clock.ts";
import { type BucketPolicy, type BucketState, Buckets, type TokenBucket } from "./token-bucket.ts";

/** The caller that is counted; for webhooks the subject is the URL. */
export interface Counted {
  readonly tenantId: string;
  readonly subject: string;
}

/** Longer names are stored as their hash. */
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
  /** The policies of the quotas, created once because buckets compare them by reference. */
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
 * For the webhooks of one of several shards, which do not share buckets: each shard gets its share of the limits, at
 * least one, so that all shards together send no more than a single one would.
 */
export function webhookLimiterOfShard(config: Config, clock: Clock): Limiter {
  const shares = webhookRates.map((name) => {
    // 0 means no limit, also for a share.
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

/** A limit needs both numbers. */
function limitOf(perMinute: number, burst: number): Limit | undefined {
  if (perMinute === 0 || burst === 0) return undefined;
  return { policy: { perMinute, burst }, buckets: new Buckets() };
}

/** A tenant contains no slash, so that no two pairs have the same key. */
function keyOf({ tenantId, subject }: Counted): string {
  const key = `${tenantId}/${subject}`;
  return key.length > keyCharsMax ? hash("sha256", key) : key;
}

export interface LimitState extends BucketState {
  readonly name: string;
}

interface NamedBucket {
  /** The name that callers see. */
  readonly name: string;
  readonly bucket: TokenBucket;
}

/** The buckets that one call counts in. A call takes from all of them or from none. */
export class Allowance {
  readonly #buckets: readonly NamedBucket[];
  readonly #clock: Clock;
  #takenMs = 0;

  constructor(buckets: readonly NamedBucket[], clock: Clock) {
    this.#buckets = buckets;
    this.#clock = clock;
  }

  state(): LimitState[] {
    const nowMs = this.#clock.monotonicMs();
    return this.#buckets.map(({ name, bucket }) => ({ name, ...bucket.state(nowMs) }));
  }

  /** The largest number of tokens that can be taken at once. */
  get burst(): number {
    return Math.min(...this.#buckets.map(({ bucket }) => bucket.policy.burst));
  }

  /** Takes the tokens and returns 0, or returns how long to wait for them; Infinity if there can never be so many. */
  take(tokens: number): number {
    const nowMs = this.#clock.monotonicMs();
    const waitMs = this.#most((bucket) => bucket.waitMs(tokens, nowMs));
    if (waitMs === 0) this.#takeNow(tokens, nowMs);
    return waitMs;
  }

  /** Takes as many tokens as are available, up to the given number. */
  takeUpTo(tokens: number): number {
    const nowMs = this.#clock.monotonicMs();
    let taken = tokens;
    for (const { bucket } of this.#buckets) taken = Math.min(taken, bucket.available(nowMs));
    this.#takeNow(taken, nowMs);
    return taken;
  }

  /** Returns tokens of the last take that were not used. */
  giveBack(tokens: number): void {
    if (tokens <= 0) return;
    const nowMs = this.#clock.monotonicMs();
    for (const { bucket } of this.#buckets) bucket.giveBack(tokens, this.#takenMs, nowMs);
  }

  /** When a refused caller should retry: after all callers that were refused before it. */
  queuedWaitMs(): number {
    const nowMs = this.#clock.monotonicMs();
    return this.#most((bucket) => bucket.queuedWaitMs(nowMs));
  }

  #takeNow(tokens: number, nowMs: number): void {
    for (const { bucket } of this.#buckets) bucket.take(tokens, nowMs);
    this.#takenMs = nowMs;
  }

  #most(of: (bucket: TokenBucket) => number): number {
    return this.#buckets.reduce((most, { bucket }) => Math.max(most, of(bucket)), 0);
  }
}
