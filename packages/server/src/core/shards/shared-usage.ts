/**
 * What tenants use over all shards: what the shards reported, and what was sent to them since. A call that a shard
 * has carried out is part of its report, so nothing is counted twice and nothing is forgotten. While a shard is
 * away, its last report and the calls that were on their way to it still count. The end of a lease that a shard
 * reported and that was not durable is undone when the shard ends; where another shard has given the lease to
 * another worker meanwhile, the tenant is above its quota until a lease ends.
 */
import type { TenantId } from "@codeq/queue";
import type { Quotas } from "../../config/quotas.ts";
import { TenantQuotas, type Usage } from "../broker/tenant-quotas.ts";

interface Sent extends Usage {
  readonly number: number;
  readonly tenantId: TenantId;
}

const none: Usage = { pending: 0, leased: 0, storedBytes: 0 };

export class SharedUsage {
  readonly quotas: TenantQuotas;
  /** By shard. */
  readonly #reported: readonly Map<TenantId, Usage>[];
  readonly #sent: Sent[][];
  /** The sum of what was sent, by tenant. */
  readonly #underWay: Map<TenantId, Usage> = new Map();

  constructor(quotas: Quotas, shards: number) {
    this.quotas = new TenantQuotas(quotas, (tenantId) => this.of(tenantId));
    this.#reported = Array.from({ length: shards }, () => new Map());
    this.#sent = Array.from({ length: shards }, () => []);
  }

  /** What the tenant has, and what is on its way. */
  of(tenantId: TenantId): Usage {
    let usage = this.#underWay.get(tenantId) ?? none;
    for (const reported of this.#reported) {
      const there = reported.get(tenantId);
      if (there !== undefined) usage = sum(usage, there, 1);
    }
    return usage;
  }

  report(shard: number, tenantId: TenantId, usage: Usage): void {
    const reported = this.#reported[shard];
    if (isNone(usage)) reported?.delete(tenantId);
    else reported?.set(tenantId, usage);
  }

  /** A call that may take so much is on its way. */
  send(shard: number, number: number, tenantId: TenantId, takes: Partial<Usage>): void {
    if (!this.quotas.isLimited) return;
    const sent: Sent = { ...none, ...takes, number, tenantId };
    this.#sent[shard]?.push(sent);
    this.#count(sent, 1);
  }

  /** The reports of a shard contain everything up to this call, except for what is not decided yet. */
  carriedOut(shard: number, number: number, undecided: readonly number[]): void {
    const sent = this.#sent[shard];
    if (sent === undefined || sent.length === 0) return;
    this.#sent[shard] = sent.filter((each) => {
      const isUnderWay = each.number > number || undecided.includes(each.number);
      if (!isUnderWay) this.#count(each, -1);
      return isUnderWay;
    });
  }

  /** All reports of a shard are void; the shard reports again what its tenants have. */
  forget(shard: number): void {
    this.#reported[shard]?.clear();
  }

  /** The shard that took the calls is gone; the next one reports what was carried out. */
  forgetSent(shard: number): void {
    for (const each of this.#sent[shard] ?? []) this.#count(each, -1);
    this.#sent[shard] = [];
  }

  #count(sent: Sent, sign: 1 | -1): void {
    const usage = sum(this.#underWay.get(sent.tenantId) ?? none, sent, sign);
    if (isNone(usage)) this.#underWay.delete(sent.tenantId);
    else this.#underWay.set(sent.tenantId, usage);
  }
}

function sum(usage: Usage, more: Usage, sign: 1 | -1): Usage {
  return {
    pending: usage.pending + sign * more.pending,
    leased: usage.leased + sign * more.leased,
    storedBytes: usage.storedBytes + sign * more.storedBytes,
  };
}

function isNone({ pending, leased, storedBytes }: Usage): boolean {
  return pending === 0 && leased === 0 && storedBytes === 0;
}
