import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "../../core/clock.ts";
import { AnonymousTurns } from "../grpc/server-stream.ts";
import { FairTurns } from "./fair-turns.ts";

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** The count after each of the next turns of the event loop. */
async function countsIn(turns: number, count: () => number): Promise<readonly number[]> {
  const counts: number[] = [];
  for (let turn = 0; turn < turns; turn += 1) {
    await nextTurn();
    counts.push(count());
  }
  return counts;
}

test("a connection has one request in a turn, whatever others have", async () => {
  const turns = new FairTurns(systemClock);
  const served: string[] = [];
  const [many, one] = [{ refusals: 0 }, { refusals: 0 }];
  for (const name of ["a1", "a2", "a3"]) turns.take(many, () => served.push(name));
  turns.take(one, () => served.push("b1"));
  assert.deepEqual(served, ["a1", "b1"]);
  await nextTurn();
  assert.deepEqual(served, ["a1", "b1", "a2"]);
  turns.take(one, () => served.push("b2"));
  await nextTurn();
  assert.deepEqual(served, ["a1", "b1", "a2", "b2", "a3"]);
});

test("requests of refused callers wait, and few of all connections are served in a turn", async () => {
  const timers: { readonly ms: number; readonly run: () => void }[] = [];
  const after = (ms: number, run: () => void): (() => void) => {
    timers.push({ ms, run });
    return () => {};
  };
  const turns = new FairTurns({ nowMs: () => 0, monotonicMs: () => 0, after });
  let served = 0;
  for (let connection = 0; connection < 10; connection += 1) {
    turns.take({ refusals: 8 }, () => {
      served += 1;
    });
  }
  assert.deepEqual([served, timers.length], [0, 10]);
  assert.ok(timers.every(({ ms }) => ms === 100));
  for (const { run } of timers) run();
  assert.deepEqual(await countsIn(3, () => served), [4, 8, 10]);
});

test("few unauthenticated calls with many messages go on in a turn", async () => {
  const turns = new AnonymousTurns();
  let gone = 0;
  for (let call = 0; call < 10; call += 1) {
    turns.take(() => {
      gone += 1;
    });
  }
  assert.equal(gone, 0);
  assert.deepEqual(await countsIn(3, () => gone), [4, 8, 10]);
});
