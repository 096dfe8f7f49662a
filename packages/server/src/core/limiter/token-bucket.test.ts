import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type BucketPolicy, TokenBucket } from "./token-bucket.ts";

const minuteMs = 60_000;

/** Takes so many if they are there. */
function tryTake(bucket: TokenBucket, tokens: number, nowMs: number): boolean {
  if (bucket.available(nowMs) < tokens) return false;
  bucket.take(tokens, nowMs);
  return true;
}

test("a bucket starts full, and empty it refills at its rate", () => {
  const bucket = new TokenBucket({ perMinute: 60, burst: 3 }, 5000);
  assert.deepEqual(
    [1, 2, 3, 4].map(() => tryTake(bucket, 1, 5000)),
    [true, true, true, false],
  );
  assert.equal(bucket.waitMs(1, 5000), 1000);
  assert.equal(tryTake(bucket, 1, 5999.9), false);
  assert.equal(tryTake(bucket, 1, 6000), true);
  assert.equal(bucket.waitMs(3, 6000), 3000);
  assert.equal(bucket.available(60_000), 3);
});

test("more than the burst is never there", () => {
  const bucket = new TokenBucket({ perMinute: 600, burst: 10 }, 0);
  assert.equal(bucket.waitMs(10, 0), 0);
  assert.equal(bucket.waitMs(11, 0), Number.POSITIVE_INFINITY);
  assert.throws(() => bucket.take(11, 0), /only what is there/);
});

test("a bucket tells what is left and when there is more", () => {
  const bucket = new TokenBucket({ perMinute: 90, burst: 3 }, 0);
  assert.deepEqual(bucket.state(0), { burst: 3, refillMs: 2000, remaining: 3, nextMs: 0 });
  bucket.take(3, 0);
  assert.deepEqual(bucket.state(100), { burst: 3, refillMs: 2000, remaining: 0, nextMs: 567 });
  assert.deepEqual(bucket.state(667), { burst: 3, refillMs: 2000, remaining: 1, nextMs: 667 });
});

test("what was taken and not used goes back, less what has been refilled since", () => {
  const bucket = new TokenBucket({ perMinute: 60, burst: 10 }, 0);
  bucket.take(10, 0);
  bucket.giveBack(9, 0, 0);
  assert.equal(bucket.available(0), 9);
  bucket.take(9, 0);
  bucket.giveBack(9, 0, 4000);
  assert.equal(bucket.available(4000), 9);
  bucket.take(9, 4000);
  bucket.giveBack(9, 4000, 3_600_000);
  assert.equal(bucket.available(3_600_000), 10);
});

test("callers that wait are called one after the other, at the rate", () => {
  const bucket = new TokenBucket({ perMinute: 60, burst: 2 }, 0);
  bucket.take(2, 0);
  assert.deepEqual(
    [1, 2, 3].map(() => bucket.queuedWaitMs(0)),
    [1000, 2000, 3000],
  );
  assert.equal(tryTake(bucket, 1, 1000), true);
  assert.equal(bucket.queuedWaitMs(1000), 3000);
  // Nobody came for a while.
  assert.equal(bucket.queuedWaitMs(60_000), 0);
});

test("the clock that stands still or is read with fractions changes nothing", () => {
  const often = new TokenBucket({ perMinute: 7, burst: 5 }, 0);
  const rarely = new TokenBucket({ perMinute: 7, burst: 5 }, 0);
  often.take(5, 0);
  rarely.take(5, 0);
  for (let ms = 0; ms <= 20_000; ms += 0.37) often.available(ms);
  assert.deepEqual(often.state(20_000), rarely.state(20_000));
});

const policyArbitrary: fc.Arbitrary<BucketPolicy> = fc.oneof(
  // Full again within the times that pass between the asks.
  fc.record({
    perMinute: fc.integer({ min: 60, max: 1000 }),
    burst: fc.integer({ min: 1, max: 20 }),
  }),
  fc.record({
    perMinute: fc.oneof(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1, max: 60_000_000 })),
    burst: fc.oneof(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 10_000_000 })),
  }),
);

interface Ask {
  readonly afterMs: number;
  /** Of the burst; 0 for one token. */
  readonly share: number;
  /** Which part of it turns out not to be needed, and how much later. */
  readonly unused: number;
  readonly backAfterMs: number;
}

/** Up to so many, with fractions, evenly. */
function upTo(max: number): fc.Arbitrary<number> {
  return fc.nat(1_000_000).map((part) => (part / 1_000_000) * max);
}

const shareArbitrary = fc.oneof(fc.constantFrom(0, 1), upTo(1));

const askArbitrary: fc.Arbitrary<Ask> = fc.record({
  afterMs: fc.oneof(fc.constant(0), upTo(5000)),
  share: shareArbitrary,
  unused: shareArbitrary,
  backAfterMs: fc.oneof(fc.constant(0), upTo(20_000)),
});

function tokensOf({ burst }: BucketPolicy, share: number): number {
  return Math.max(1, Math.floor(share * burst));
}

interface Use {
  readonly atMs: number;
  readonly tokens: number;
}

/** What is taken for good, at the times it was taken. */
function uses(policy: BucketPolicy, asks: readonly Ask[]): Use[] {
  const bucket = new TokenBucket(policy, 0);
  const found: Use[] = [];
  let returns: { atMs: number; takenMs: number; tokens: number }[] = [];
  let nowMs = 0;
  for (const { afterMs, share, unused, backAfterMs } of asks) {
    nowMs += afterMs;
    const tokens = tokensOf(policy, share);
    returns.sort((a, b) => a.atMs - b.atMs);
    for (const each of returns.filter(({ atMs }) => atMs <= nowMs)) {
      bucket.giveBack(each.tokens, each.takenMs, each.atMs);
    }
    returns = returns.filter(({ atMs }) => atMs > nowMs);
    if (!tryTake(bucket, tokens, nowMs)) continue;
    const back = Math.floor(unused * tokens);
    returns.push({ atMs: nowMs + backAfterMs, takenMs: nowMs, tokens: back });
    found.push({ atMs: nowMs, tokens: tokens - back });
  }
  return found;
}

test("never more than the burst and what the rate gives, in any stretch of time", () => {
  fc.assert(
    fc.property(
      policyArbitrary,
      fc.array(askArbitrary, { maxLength: 60, size: "max" }),
      (policy, asks) => {
        const taken = uses(policy, asks);
        for (let first = 0; first < taken.length; first += 1) {
          let sum = 0;
          for (const { atMs, tokens } of taken.slice(first)) {
            sum += tokens;
            // Times count in whole milliseconds.
            const passedMs = Math.floor(atMs) - Math.floor(taken[first]!.atMs);
            const most = policy.burst + (policy.perMinute * passedMs) / minuteMs;
            assert.ok(sum <= most + 1e-6, `${sum} within ${passedMs} ms, at most ${most}`);
          }
        }
      },
    ),
    { numRuns: 2000 },
  );
});

test("whoever waits as long as it was told gets its tokens, and not a millisecond earlier", () => {
  fc.assert(
    fc.property(
      policyArbitrary,
      fc.array(askArbitrary, { maxLength: 40 }),
      fc.integer({ min: 1, max: 50 }),
      (policy, asks, tokens) => {
        const bucket = new TokenBucket(policy, 0);
        let nowMs = 0;
        for (const { afterMs, share } of asks) {
          nowMs += Math.floor(afterMs);
          tryTake(bucket, tokensOf(policy, share), nowMs);
        }
        const waitMs = bucket.waitMs(tokens, nowMs);
        if (waitMs === Number.POSITIVE_INFINITY) {
          assert.ok(tokens > policy.burst);
          return;
        }
        if (waitMs > 0) assert.equal(bucket.available(nowMs + waitMs - 1) < tokens, true);
        assert.equal(tryTake(bucket, tokens, nowMs + waitMs), true);
      },
    ),
    { numRuns: 1000 },
  );
});
