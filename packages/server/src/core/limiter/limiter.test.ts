import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { SimClock } from "../../../../simulated/src/index.ts";
import { loadConfig } from "../../config/load.ts";
import { noQuotas } from "../../config/quotas.ts";
import type { Config } from "../../config/settings.ts";
import { Limiter, webhookLimiterOfShard } from "./limiter.ts";
import { Buckets } from "./token-bucket.ts";

const policy = { perMinute: 60, burst: 2 };

function setup(settings: Partial<Config>): { limiter: Limiter; clock: SimClock } {
  const loaded = loadConfig({ argv: [], env: {}, readFile: () => "" });
  assert.ok(loaded.ok);
  const clock = new SimClock();
  return { limiter: new Limiter({ ...loaded.config, ...settings }, clock), clock };
}

const perToken = {
  "rateLimit.producer.requestsPerMinute": 60,
  "rateLimit.producer.burstSize": 2,
};
const perTenant = {
  "rateLimit.producer.tenantRequestsPerMinute": 60,
  "rateLimit.producer.tenantBurstSize": 3,
};

test("a scope without both of its numbers is not limited, and each scope is on its own", () => {
  const { limiter } = setup({ ...perToken, "rateLimit.worker.requestsPerMinute": 60 });
  const who = { tenantId: "acme", subject: "shop" };
  assert.notEqual(limiter.of("producer", who), undefined);
  for (const scope of ["worker", "admin", "webhook"] as const) {
    assert.equal(limiter.of(scope, who), undefined);
  }
  assert.equal(limiter.requestsOf("acme"), undefined);
});

test("shards have a share each of what webhooks may be sent, of one at least", () => {
  const clock = new SimClock();
  const loaded = loadConfig({ argv: [], env: {}, readFile: () => "" });
  assert.ok(loaded.ok);
  const takenOf = (shards: number, burst: number): number => {
    const config = {
      ...loaded.config,
      shards,
      "rateLimit.webhook.requestsPerMinute": 60,
      "rateLimit.webhook.burstSize": burst,
    };
    const limiter = webhookLimiterOfShard(config, clock);
    const who = { tenantId: "acme", subject: "http://a/hook" };
    let taken = 0;
    while (limiter.of("webhook", who)!.take(1) === 0) taken += 1;
    // The rate is divided as well.
    assert.equal(limiter.of("webhook", who)!.take(1), 60_000 / Math.floor(60 / shards));
    return taken;
  };
  assert.deepEqual([takenOf(1, 10), takenOf(3, 10), takenOf(4, 2)], [10, 3, 1]);
  const without = webhookLimiterOfShard({ ...loaded.config, shards: 4 }, clock);
  assert.equal(without.of("webhook", { tenantId: "acme", subject: "" }), undefined);
});

test("subjects have a bucket each, tenants of the same subject too", () => {
  const { limiter } = setup(perToken);
  const take = (tenantId: string, subject: string): number =>
    limiter.of("producer", { tenantId, subject })!.take(1);
  assert.deepEqual([take("acme", "shop"), take("acme", "shop")], [0, 0]);
  assert.equal(take("acme", "shop"), 1000);
  assert.equal(take("acme", "other"), 0);
  assert.equal(take("globex", "shop"), 0);
  // A long name is another than its beginning.
  assert.equal(take("acme", `${"x".repeat(500)}1`), 0);
  assert.equal(take("acme", `${"x".repeat(500)}1`), 0);
  assert.equal(take("acme", `${"x".repeat(500)}2`), 0);
});

test("the tenant's bucket holds for all of its subjects, and nothing is taken from either alone", () => {
  const { limiter, clock } = setup({ ...perToken, ...perTenant });
  const of = (subject: string) => limiter.of("producer", { tenantId: "acme", subject })!;
  assert.equal(of("a").take(2), 0);
  assert.equal(of("b").take(2), 1000);
  assert.deepEqual(
    of("b")
      .state()
      .map(({ name, remaining }) => [name, remaining]),
    [
      ["token", 2],
      ["tenant", 1],
    ],
  );
  assert.equal(of("b").takeUpTo(2), 1);
  assert.equal(of("b").takeUpTo(2), 0);
  assert.equal(of("b").burst, 2);
  assert.equal(limiter.of("producer", { tenantId: "globex", subject: "b" })!.take(2), 0);
  assert.equal(clock.nextTimerMs, undefined);
});

test("a tenant's quota of requests is its own", () => {
  const { default: none } = noQuotas;
  const { limiter } = setup({
    quotas: {
      default: { ...none, requestsPerSecond: 2 },
      tenants: new Map([["globex", none]]),
    },
  });
  const take = (): number => limiter.requestsOf("acme")!.take(1);
  assert.deepEqual([take(), take(), take()], [0, 0, 500]);
  assert.equal(limiter.requestsOf("globex"), undefined);
});

test("buckets that are full again are collected when others come, without a timer", () => {
  const buckets = new Buckets();
  for (let n = 0; n < 1024; n += 1) buckets.of(`early-${n}`, policy, 0).take(1, 0);
  assert.equal(buckets.size, 1024);
  buckets.of("late", policy, 999);
  assert.equal(buckets.size, 1025);
  for (let n = 0; n < 1023; n += 1) buckets.of(`late-${n}`, policy, 1000);
  assert.equal(buckets.size, 2048);
  buckets.of("last", policy, 1001);
  assert.equal(buckets.size, 1);
});

test("S14: when all buckets are in use newcomers share one, and nobody gets a fresh one", () => {
  const buckets = new Buckets(4);
  const take = (key: string, nowMs: number): boolean => {
    const bucket = buckets.of(key, policy, nowMs);
    if (bucket.available(nowMs) === 0) return false;
    bucket.take(1, nowMs);
    return true;
  };
  for (const key of ["a", "b", "c", "d"]) assert.ok(take(key, 0) && take(key, 0));
  assert.deepEqual(
    ["e", "f", "g", "e", "a"].map((key) => take(key, 0)),
    [true, true, false, false, false],
  );
  assert.equal(buckets.size, 5);
  // All are full again, so there is room for everybody.
  assert.ok(take("h", 3000));
  assert.equal(buckets.size, 1);
});

test("S14: whatever names come, memory is bounded and no name gets more than its burst and rate", () => {
  const names = fc.oneof(
    fc.constantFrom("a", "b"),
    fc.integer({ min: 0, max: 40 }).map((n) => `n${n}`),
  );
  const asks = fc.array(fc.record({ name: names, afterMs: fc.nat(700) }), {
    maxLength: 100,
    size: "max",
  });
  fc.assert(
    fc.property(asks, fc.integer({ min: 1, max: 8 }), (given, max) => {
      const buckets = new Buckets(max);
      const taken = new Map<string, number[]>();
      let nowMs = 0;
      for (const { name, afterMs } of given) {
        nowMs += afterMs;
        const bucket = buckets.of(name, policy, nowMs);
        assert.ok(buckets.size <= max + 1);
        if (bucket.available(nowMs) === 0) continue;
        bucket.take(1, nowMs);
        const times = taken.get(name) ?? [];
        taken.set(name, times);
        times.push(nowMs);
      }
      for (const times of taken.values()) {
        for (const [from, firstMs] of times.entries()) {
          for (let to = from; to < times.length; to += 1) {
            const most = policy.burst + ((times[to]! - firstMs) * policy.perMinute) / 60_000;
            assert.ok(to - from + 1 <= most);
          }
        }
      }
    }),
    { numRuns: 500 },
  );
});
