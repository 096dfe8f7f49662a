import assert from "node:assert/strict";
import { test } from "node:test";
import {
  leasedTask,
  nobody,
  otherWorker,
  policy,
  retention,
  taskIn,
  worker,
} from "../../test/build-task.ts";
import type { RetryPolicy } from "../backoff.ts";
import type { Task } from "../task.ts";
import type { Returned } from "./give-back.ts";
import { nack } from "./give-back.ts";

const at = { nowMs: 10_000, seq: 50, draw: 0.5, policy, retention };
const plain = { delaySeconds: 0, reason: "" };

function nacked(
  task: Task,
  request: { readonly delaySeconds?: number; readonly reason?: string } = {},
  over: { readonly policy?: RetryPolicy; readonly draw?: number } = {},
): Returned {
  const outcome = nack(task, { workerId: worker }, { ...plain, ...request }, { ...at, ...over });
  assert.ok(outcome.ok);
  return outcome.value;
}

test("a delay the worker asks for is the delay it gets", () => {
  const returned = nacked(leasedTask(), { delaySeconds: 42 });
  assert.equal(returned.delaySeconds, 42);
  assert.deepEqual(returned.task.place, { in: "delayed", dueMs: 52_000 });
});

test("a delay above the policy's ceiling is cut to it", () => {
  assert.equal(nacked(leasedTask(), { delaySeconds: 900 }).delaySeconds, 900);
  const returned = nacked(leasedTask(), { delaySeconds: 901 });
  assert.equal(returned.delaySeconds, 900);
  assert.deepEqual(returned.task.place, { in: "delayed", dueMs: 910_000 });
  assert.equal(nacked(leasedTask(), { delaySeconds: 1e9 }).delaySeconds, 900);
});

test("without a delay the policy decides, counting the attempt that came back", () => {
  assert.equal(nacked(leasedTask({ attempts: 0 })).delaySeconds, 10);
  assert.equal(nacked(leasedTask({ attempts: 1 })).delaySeconds, 20);
  assert.equal(nacked(leasedTask({ attempts: 3, leaseToken: 4 })).delaySeconds, 80);
});

test("a delay below zero leaves the delay to the policy", () => {
  assert.equal(nacked(leasedTask(), { delaySeconds: -1 }).delaySeconds, 20);
});

test("the draw is what moves a jittered delay", () => {
  const jittered: RetryPolicy = { ...policy, backoff: "exp_full_jitter" };
  assert.equal(nacked(leasedTask(), {}, { policy: jittered, draw: 0.5 }).delaySeconds, 10);
  assert.equal(nacked(leasedTask(), {}, { policy: jittered, draw: 0.999 }).delaySeconds, 20);
});

test("a computed delay of zero makes the task ready at the back of its queue", () => {
  const jittered: RetryPolicy = { ...policy, backoff: "exp_full_jitter" };
  const returned = nacked(leasedTask(), {}, { policy: jittered, draw: 0 });
  assert.equal(returned.delaySeconds, 0);
  assert.deepEqual(returned.task.place, { in: "ready", seq: 50 });
});

test("a nack counts one attempt and remembers the reason", () => {
  const { task } = nacked(leasedTask({ error: "older" }), { reason: "jam" });
  assert.equal(task.attempts, 2);
  assert.equal(task.error, "jam");
  assert.equal(task.updatedMs, 10_000);
});

test("a nack without a reason keeps the reason of the one before", () => {
  assert.equal(nacked(leasedTask({ error: "older" })).task.error, "older");
});

test("the last nack buries the task with its reason", () => {
  const task = leasedTask({ attempts: 4, leaseToken: 5, error: "older" });
  const returned = nacked(task, { reason: "jam", delaySeconds: 5 });
  assert.equal(returned.buried, true);
  assert.equal(returned.delaySeconds, 0);
  assert.equal(returned.task.attempts, 5);
  assert.equal(returned.task.error, "jam");
  assert.deepEqual(returned.task.place, { in: "dead", atMs: 10_000, expiresMs: 604_810_000 });
});

test("the last nack without a reason says that the attempts are used up", () => {
  const task = leasedTask({ attempts: 4, leaseToken: 5, error: "older" });
  assert.equal(nacked(task).task.error, "MAX_ATTEMPTS");
});

test("a lease that has run out but was not taken back can still be given back", () => {
  const late = nack(leasedTask(), { workerId: worker }, plain, { ...at, nowMs: 1_000_000 });
  assert.equal(late.ok, true);
});

test("whoever does not own the lease cannot nack it", () => {
  const notOwner = { ok: false, code: "not_owner" };
  assert.deepEqual(nack(leasedTask(), { workerId: otherWorker }, plain, at), notOwner);
  assert.deepEqual(nack(leasedTask(), { workerId: nobody }, plain, at), notOwner);
  assert.deepEqual(nack(leasedTask(), { workerId: worker, leaseToken: 1 }, plain, at), notOwner);
  assert.deepEqual(nack(leasedTask(), { workerId: worker, leaseToken: 3 }, plain, at), notOwner);
});

test("a task that is not leased cannot be nacked", () => {
  for (const where of ["ready", "delayed", "dead", "done"] as const) {
    const refused = nack(taskIn(where), { workerId: worker, leaseToken: 2 }, plain, at);
    assert.deepEqual(refused, { ok: false, code: "not_in_progress" });
  }
});

const inLane = { name: "acme", cost: 3, holds: 0, seq: 7 };

test("a held task keeps its turn in its lane, and no attempt is counted", () => {
  const task = leasedTask({ attempts: 2, lane: inLane });
  const outcome = nack(task, { workerId: worker }, { ...plain, reason: "429", holdMs: 30_000 }, at);
  assert.ok(outcome.ok);
  const { task: held, delaySeconds, buried } = outcome.value;
  assert.deepEqual(held.place, { in: "ready", seq: 7 });
  assert.deepEqual(held.lane, { ...inLane, holds: 1 });
  assert.deepEqual([held.attempts, held.error, delaySeconds, buried], [2, "429", 30, false]);
});

test("a task without a lane waits by itself when it is held", () => {
  const outcome = nack(leasedTask(), { workerId: worker }, { ...plain, holdMs: 30_000 }, at);
  assert.ok(outcome.ok);
  assert.deepEqual(outcome.value.task.place, { in: "delayed", dueMs: 40_000 });
  assert.equal(outcome.value.task.lane?.holds, 1);
});

test("the hundredth hold in a row is the last one that is no attempt", () => {
  const holdMs = 30_000;
  const last = nack(
    leasedTask({ attempts: 1, lane: { ...inLane, holds: 99 } }),
    { workerId: worker },
    { ...plain, holdMs },
    at,
  );
  assert.ok(last.ok);
  assert.equal(last.value.task.attempts, 1);
  const counted = nack(
    leasedTask({ attempts: 1, lane: { ...inLane, holds: 100 } }),
    { workerId: worker },
    { ...plain, holdMs },
    at,
  );
  assert.ok(counted.ok);
  assert.equal(counted.value.task.attempts, 2);
  assert.equal(counted.value.task.lane?.holds, 0);
  assert.equal(counted.value.delaySeconds, 30);
});
