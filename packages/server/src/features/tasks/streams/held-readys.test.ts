import assert from "node:assert/strict";
import { test } from "node:test";
import { acme, worker } from "../../../../test/broker-world.ts";
import type { ClaimedTask, Refused } from "../../../core/broker/verbs.ts";
import { HeldReadys, type ReadyOwner, StandingReady } from "./held-readys.ts";

const nobody: ReadyOwner = { claimed: () => {}, claimRefused: () => {} };

function readyOf(chars: number, owner: ReadyOwner = nobody): StandingReady {
  const request = { tenantId: acme, workerId: worker, queues: undefined, leaseMs: 1, count: 1 };
  return new StandingReady(
    owner,
    { ...request, waitMs: Number.POSITIVE_INFINITY },
    { startedMs: 0, asBatch: false, chars },
  );
}

test("those that are held come out in their order, once", () => {
  const held = new HeldReadys();
  const readys = [readyOf(1), readyOf(2), readyOf(3)];
  assert.deepEqual(held.take(), []);
  for (const ready of readys) {
    held.count(ready);
    held.hold(ready);
  }
  assert.equal(held.isEmpty, false);
  assert.deepEqual(held.take(), readys);
  assert.deepEqual([held.take(), held.isEmpty], [[], true]);
});

test("what is held while others are handed out is handed out with the next", () => {
  const held = new HeldReadys();
  const [first, second] = [readyOf(1), readyOf(1)];
  held.hold(first);
  for (const ready of held.take()) held.hold(ready);
  held.hold(second);
  assert.deepEqual(held.take(), [first, second]);
});

test("there are at most 1024, those that ask for work among them", () => {
  const held = new HeldReadys();
  const readys = Array.from({ length: 1024 }, () => readyOf(0));
  for (const ready of readys) {
    assert.ok(held.hasRoomFor(0));
    held.count(ready);
  }
  assert.equal(held.hasRoomFor(0), false);
  held.end(readys[5] as StandingReady);
  assert.ok(held.hasRoomFor(0));
});

test("all together ask with at most a million characters", () => {
  const held = new HeldReadys();
  const most = 1024 * 1024;
  const large = readyOf(most - 1);
  assert.ok(held.hasRoomFor(most));
  assert.equal(held.hasRoomFor(most + 1), false);
  held.count(large);
  assert.ok(held.hasRoomFor(1));
  assert.equal(held.hasRoomFor(2), false);
  held.end(large);
  assert.ok(held.hasRoomFor(most));
});

test("a Ready passes what its claim got on to who asked", () => {
  const told: unknown[] = [];
  const ready = readyOf(1, {
    claimed: (each, tasks) => told.push([each, tasks]),
    claimRefused: (each, why) => told.push([each, why]),
  });
  const tasks: ClaimedTask[] = [];
  const why: Refused = { code: "task_unknown" };
  ready.durable(tasks);
  ready.refused(why);
  assert.deepEqual(told, [
    [ready, tasks],
    [ready, why],
  ]);
});
