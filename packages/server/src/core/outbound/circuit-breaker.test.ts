import assert from "node:assert/strict";
import test from "node:test";
import { CircuitBreaker } from "./circuit-breaker.ts";

const failuresMax = 3;
const limits = { failuresMax, waitsMs: [1000, 2000, 4000, 8000, 16_000, 30_000] };

function fail(breaker: CircuitBreaker, times: number, nowMs: number): void {
  for (let n = 0; n < times; n += 1) breaker.failed(nowMs);
}

test("a breaker opens after failures in a row, and not before", () => {
  const breaker = new CircuitBreaker(limits);
  fail(breaker, failuresMax - 1, 0);
  assert.ok(breaker.isClosed);
  breaker.succeeded();
  fail(breaker, failuresMax - 1, 0);
  assert.ok(breaker.isClosed);
  assert.equal(breaker.failed(100), true);
  assert.equal(breaker.isClosed, false);
  assert.equal(breaker.untilMs, 100 + 1000);
});

test("every probe that fails makes the wait longer, up to a maximum", () => {
  const breaker = new CircuitBreaker(limits);
  fail(breaker, failuresMax, 0);
  const waits: number[] = [];
  for (let n = 0; n < 8; n += 1) {
    const nowMs = breaker.untilMs;
    breaker.failed(nowMs);
    waits.push(breaker.untilMs - nowMs);
  }
  assert.deepEqual(waits.slice(0, 4), [2000, 4000, 8000, 16_000]);
  assert.equal(waits.at(-1), 30_000);
});

test("calls that end while the breaker is open do not prolong it", () => {
  const breaker = new CircuitBreaker(limits);
  fail(breaker, failuresMax + 5, 0);
  assert.equal(breaker.untilMs, 1000);
});

test("a success closes the breaker", () => {
  const breaker = new CircuitBreaker(limits);
  fail(breaker, failuresMax, 0);
  breaker.succeeded();
  assert.ok(breaker.isClosed);
  assert.ok(breaker.untilMs < 0);
});

test("a hold delays calls and opens nothing", () => {
  const breaker = new CircuitBreaker(limits);
  breaker.hold(500);
  breaker.hold(300);
  assert.deepEqual([breaker.untilMs, breaker.isClosed], [500, true]);
});
