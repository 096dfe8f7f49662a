import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  type BackoffPolicy,
  backoffPolicies,
  backoffSeconds,
  ceilingSeconds,
  type RetryPolicy,
} from "./backoff.ts";

const lastDraw = 1 - 2 ** -53;

function setup(backoff: BackoffPolicy, over: Partial<RetryPolicy> = {}): RetryPolicy {
  return { backoff, baseSeconds: 5, maxSeconds: 900, ...over };
}

const anyDraw = fc.double({ min: 0, max: lastDraw, noNaN: true });
const anyAttempts = fc.oneof(
  fc.integer({ min: 0, max: 70 }),
  fc.integer({ min: 0, max: 1_000_000_000 }),
);
const anyPolicy: fc.Arbitrary<RetryPolicy> = fc.record({
  backoff: fc.constantFrom(...backoffPolicies),
  baseSeconds: fc.integer({ min: -2, max: 10_000 }),
  maxSeconds: fc.integer({ min: -2, max: 100_000 }),
});

/** The bounds in exact arithmetic, where a number cannot overflow or lose a digit. */
function exactBounds(policy: RetryPolicy, attempts: number): { low: bigint; high: bigint } {
  const base = BigInt(policy.baseSeconds <= 0 ? 1 : policy.baseSeconds);
  const max = policy.maxSeconds <= 0 ? base : BigInt(policy.maxSeconds);
  const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
  // Past 64 doublings any base is over any ceiling used here.
  const cap = least(base << BigInt(Math.min(attempts, 64)), max);
  const linear = least(base * BigInt(Math.max(attempts, 1)), max);
  switch (policy.backoff) {
    case "fixed":
      return { low: least(base, max), high: least(base, max) };
    case "linear":
      return { low: linear, high: linear };
    case "exponential":
      return { low: cap, high: cap };
    case "exp_equal_jitter":
      return { low: cap / 2n, high: (cap / 2n) * 2n };
    case "exp_full_jitter":
      return { low: 0n, high: cap };
  }
}

test("every delay is a whole number inside the bounds of its policy", () => {
  fc.assert(
    fc.property(anyPolicy, anyAttempts, anyDraw, (policy, attempts, draw) => {
      const seconds = backoffSeconds(policy, attempts, draw);
      assert.ok(Number.isSafeInteger(seconds), `${seconds} is not whole`);
      const { low, high } = exactBounds(policy, attempts);
      assert.ok(BigInt(seconds) >= low && BigInt(seconds) <= high, `${seconds} ${low}..${high}`);
    }),
    { numRuns: 2000 },
  );
});

test("the smallest and the largest draw reach both ends of the range", () => {
  fc.assert(
    fc.property(anyPolicy, anyAttempts, (policy, attempts) => {
      const { low, high } = exactBounds(policy, attempts);
      assert.equal(BigInt(backoffSeconds(policy, attempts, 0)), low);
      assert.equal(BigInt(backoffSeconds(policy, attempts, lastDraw)), high);
    }),
    { numRuns: 2000 },
  );
});

test("evenly spaced draws give every second of full jitter the same share", () => {
  const policy = setup("exp_full_jitter");
  const counts = new Map<number, number>();
  for (let step = 0; step < 1100; step++) {
    const seconds = backoffSeconds(policy, 1, (step + 0.5) / 1100);
    counts.set(seconds, (counts.get(seconds) ?? 0) + 1);
  }
  assert.deepEqual(
    [...counts].sort(([a], [b]) => a - b),
    Array.from({ length: 11 }, (_, seconds) => [seconds, 100]),
  );
});

test("evenly spaced draws give every second of equal jitter the same share", () => {
  const policy = setup("exp_equal_jitter");
  const counts = new Map<number, number>();
  for (let step = 0; step < 600; step++) {
    const seconds = backoffSeconds(policy, 1, (step + 0.5) / 600);
    counts.set(seconds, (counts.get(seconds) ?? 0) + 1);
  }
  assert.deepEqual(
    [...counts].sort(([a], [b]) => a - b),
    Array.from({ length: 6 }, (_, seconds) => [seconds + 5, 100]),
  );
});

test("the policies without jitter follow their tables", () => {
  const delays = (policy: RetryPolicy): number[] =>
    [0, 1, 2, 3, 8, 200].map((attempts) => backoffSeconds(policy, attempts, 0.9));
  assert.deepEqual(delays(setup("fixed")), [5, 5, 5, 5, 5, 5]);
  assert.deepEqual(delays(setup("linear")), [5, 5, 10, 15, 40, 900]);
  assert.deepEqual(delays(setup("exponential")), [5, 10, 20, 40, 900, 900]);
});

test("the policies without jitter ignore the draw", () => {
  fc.assert(
    fc.property(
      fc.constantFrom<BackoffPolicy>("fixed", "linear", "exponential"),
      anyAttempts,
      anyDraw,
      (backoff, attempts, draw) => {
        const policy = setup(backoff);
        assert.equal(backoffSeconds(policy, attempts, draw), backoffSeconds(policy, attempts, 0));
      },
    ),
  );
});

test("an odd cap loses its last second under equal jitter and keeps it under full jitter", () => {
  const seven = { baseSeconds: 7, maxSeconds: 7 };
  assert.equal(backoffSeconds(setup("exp_equal_jitter", seven), 3, 0), 3);
  assert.equal(backoffSeconds(setup("exp_equal_jitter", seven), 3, lastDraw), 6);
  assert.equal(backoffSeconds(setup("exp_full_jitter", seven), 3, lastDraw), 7);
});

test("counts that overflow a doubling end at the ceiling", () => {
  for (const attempts of [52, 53, 62, 63, 64, 1023, 1024, 1e9, Number.MAX_SAFE_INTEGER, Infinity]) {
    assert.equal(backoffSeconds(setup("exponential"), attempts, 0), 900);
    assert.equal(backoffSeconds(setup("linear"), attempts, 0), Math.min(attempts * 5, 900));
    assert.equal(backoffSeconds(setup("exp_equal_jitter"), attempts, 0), 450);
    assert.equal(backoffSeconds(setup("exp_full_jitter"), attempts, lastDraw), 900);
  }
});

test("a count below zero is treated as zero", () => {
  assert.equal(backoffSeconds(setup("exponential"), -3, 0), 5);
  assert.equal(backoffSeconds(setup("linear"), -3, 0), 5);
});

test("a base of zero or less becomes one second", () => {
  for (const baseSeconds of [0, -1, -1000]) {
    assert.equal(backoffSeconds(setup("fixed", { baseSeconds }), 1, 0), 1);
    assert.equal(backoffSeconds(setup("exponential", { baseSeconds }), 3, 0), 8);
    assert.equal(backoffSeconds(setup("exponential", { baseSeconds }), 5000, 0), 900);
  }
});

test("a ceiling of zero or less becomes the base", () => {
  for (const maxSeconds of [0, -1]) {
    assert.equal(ceilingSeconds(setup("fixed", { maxSeconds })), 5);
    assert.equal(backoffSeconds(setup("exponential", { maxSeconds }), 6, 0), 5);
    assert.equal(ceilingSeconds(setup("fixed", { baseSeconds: 0, maxSeconds })), 1);
  }
});

test("settings with a fraction still give whole seconds", () => {
  const fractions = { baseSeconds: 1.7, maxSeconds: 9.9 };
  assert.equal(backoffSeconds(setup("fixed", fractions), 1, 0), 1);
  assert.equal(backoffSeconds(setup("exponential", fractions), 1, 0), 3);
  assert.equal(backoffSeconds(setup("exponential", fractions), 9, 0), 9);
  assert.equal(ceilingSeconds(setup("fixed", fractions)), 9);
});

test("the list of policies names each one once", () => {
  assert.deepEqual([...backoffPolicies].sort(), [
    "exp_equal_jitter",
    "exp_full_jitter",
    "exponential",
    "fixed",
    "linear",
  ]);
});
