import assert from "node:assert/strict";
import test from "node:test";
import { CircuitBreaker, openMsMax, openMsMin, silentMax } from "./circuit-breaker.ts";

function silent(breaker: CircuitBreaker, times: number, nowMs: number): void {
  for (let n = 0; n < times; n += 1) breaker.unanswered(nowMs);
}

test("a breaker opens after calls without an answer in a row, and not before", () => {
  const breaker = new CircuitBreaker();
  silent(breaker, silentMax - 1, 0);
  assert.ok(breaker.isClosed);
  breaker.answered();
  silent(breaker, silentMax - 1, 0);
  assert.ok(breaker.isClosed);
  assert.equal(breaker.unanswered(100), true);
  assert.equal(breaker.isClosed, false);
  assert.equal(breaker.untilMs, 100 + openMsMin);
});

test("every probe without an answer doubles the wait, up to a maximum", () => {
  const breaker = new CircuitBreaker();
  silent(breaker, silentMax, 0);
  const waits: number[] = [];
  for (let n = 0; n < 8; n += 1) {
    const nowMs = breaker.untilMs;
    breaker.unanswered(nowMs);
    waits.push(breaker.untilMs - nowMs);
  }
  assert.deepEqual(waits.slice(0, 4), [2000, 4000, 8000, 16_000]);
  assert.equal(waits.at(-1), openMsMax);
});

test("calls that end while the breaker is open do not prolong it", () => {
  const breaker = new CircuitBreaker();
  silent(breaker, silentMax + 5, 0);
  assert.equal(breaker.untilMs, openMsMin);
});

test("an answer closes the breaker", () => {
  const breaker = new CircuitBreaker();
  silent(breaker, silentMax, 0);
  breaker.answered();
  assert.ok(breaker.isClosed);
  assert.ok(breaker.untilMs < 0);
});

test("a hold delays calls and opens nothing", () => {
  const breaker = new CircuitBreaker();
  breaker.hold(500);
  breaker.hold(300);
  assert.deepEqual([breaker.untilMs, breaker.isClosed], [500, true]);
});
