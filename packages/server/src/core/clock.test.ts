import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { test } from "node:test";
import { type Clock, steadyClock, systemClock, untilSharedMs } from "./clock.ts";

test("time stands still within a callback and goes on after it", async () => {
  const first = systemClock.monotonicMs();
  const wall = systemClock.nowMs();
  for (let step = 0; step < 200_000; step++) assert.equal(systemClock.monotonicMs(), first);
  assert.equal(systemClock.nowMs(), wall);
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(systemClock.monotonicMs() > first);
  assert.ok(systemClock.nowMs() >= wall);
});

test("every callback of a socket reads the time anew", async (t) => {
  const server = createServer((socket) => socket.end("x")).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const before = systemClock.monotonicMs();
  const socket = connect(port, "127.0.0.1");
  await once(socket, "data");
  assert.ok(systemClock.monotonicMs() > before);
  socket.destroy();
});

test("timers that look again about every second end at the same moments", () => {
  for (let nowMs = 0; nowMs < 3000; nowMs += 0.7) {
    const delayMs = untilSharedMs({ monotonicMs: () => nowMs }, 1000);
    assert.ok(delayMs >= 500 && delayMs <= 1500, `${delayMs} at ${nowMs}`);
    const offMs = (nowMs + delayMs) % 1000;
    assert.ok(Math.min(offMs, 1000 - offMs) <= 10.001, `${offMs} off at ${nowMs}`);
  }
  assert.equal(
    untilSharedMs({ monotonicMs: () => 1234 }, Number.POSITIVE_INFINITY),
    Number.POSITIVE_INFINITY,
  );
});

/** A wall clock that can be set. */
class SetClock implements Clock {
  #monotonicMs = 0;
  aheadMs = 1_000_000;

  nowMs(): number {
    return this.#monotonicMs + this.aheadMs;
  }

  monotonicMs(): number {
    return this.#monotonicMs;
  }

  after(): () => void {
    return () => {};
  }

  pass(ms: number): void {
    this.#monotonicMs += ms;
  }
}

const twoDaysMs = 2 * 24 * 60 * 60 * 1000;

for (const byMs of [twoDaysMs, -twoDaysMs]) {
  test(`a steady clock ignores a step of ${byMs} ms that is taken back`, () => {
    const clock = new SetClock();
    const steady = steadyClock(clock);
    clock.pass(5000);
    assert.equal(steady.nowMs(), 1_005_000);
    clock.aheadMs += byMs;
    for (let second = 6; second < 60; second += 1) {
      clock.pass(1000);
      assert.equal(steady.nowMs(), 1_000_000 + second * 1000);
    }
    clock.aheadMs -= byMs;
    clock.pass(1000);
    assert.equal(steady.nowMs(), 1_060_000);
  });

  test(`a steady clock believes a step of ${byMs} ms after a minute`, () => {
    const clock = new SetClock();
    const steady = steadyClock(clock);
    clock.aheadMs += byMs;
    assert.equal(steady.nowMs(), 1_000_000);
    clock.pass(59_999);
    assert.equal(steady.nowMs(), 1_059_999);
    clock.pass(1);
    assert.equal(steady.nowMs(), 1_060_000 + byMs);
  });
}

test("a steady clock follows corrections of minutes at once", () => {
  const clock = new SetClock();
  const steady = steadyClock(clock);
  clock.aheadMs += 290_000;
  assert.equal(steady.nowMs(), 1_290_000);
  clock.aheadMs -= 290_000;
  assert.equal(steady.nowMs(), 1_000_000);
});
