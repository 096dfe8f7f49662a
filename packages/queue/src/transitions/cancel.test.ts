import assert from "node:assert/strict";
import { test } from "node:test";
import { policy, retention, taskIn, worker } from "../../test/build-task.ts";
import { violations } from "../../test/invariants.ts";
import type { Task } from "../task.ts";
import { claim } from "./claim.ts";
import { complete } from "./complete.ts";
import { cancel } from "./end-unfinished.ts";
import { extendLease } from "./extend-lease.ts";
import { abandon, expireLease, nack, release } from "./give-back.ts";

const at = { nowMs: 9000, graceMs: 5000, retention };
const by = { workerId: worker };
const back = { nowMs: 10_000, seq: 50, draw: 0.5, policy, retention };

function asked(): Task {
  const outcome = cancel(taskIn("leased"), at);
  assert.ok(outcome.ok);
  assert.deepEqual(violations(outcome.value), []);
  return outcome.value;
}

function assertCancelled(task: Task, atMs: number): void {
  assert.deepEqual(violations(task), []);
  assert.equal(task.error, "CANCELLED");
  assert.deepEqual(task.result, { json: "", artifacts: [] });
  const expiresMs = atMs + retention.doneMs;
  assert.deepEqual(task.place, {
    in: "done",
    how: "cancelled",
    workerId: "",
    startedMs: atMs,
    atMs,
    expiresMs,
  });
}

test("a task that waits ends at once, also one that was never delivered", () => {
  for (const task of [
    taskIn("ready"),
    taskIn("delayed", { handBacks: 1, leaseToken: 3 }),
    taskIn("ready", { leaseToken: 0, attempts: 0 }),
  ]) {
    const outcome = cancel(task, at);
    assert.ok(outcome.ok);
    assertCancelled(outcome.value, 9000);
  }
});

test("a task that a worker has gets a time of grace, which is never prolonged", () => {
  const task = asked();
  assert.equal(task.cancelMs, 14_000);
  assert.equal(task.place.in === "leased" && task.place.untilMs, 14_000);
  const again = cancel(task, { ...at, nowMs: 10_000 });
  assert.equal(again.ok && again.value.cancelMs, 14_000);
  const sooner = cancel(task, { ...at, nowMs: 10_000, graceMs: 1000 });
  assert.equal(sooner.ok && sooner.value.cancelMs, 11_000);
  const atOnce = cancel(task, { ...at, graceMs: 0 });
  assert.ok(atOnce.ok);
  assertCancelled(atOnce.value, 9000);
});

test("a heartbeat does not reach beyond the grace", () => {
  const extended = extendLease(asked(), by, {
    nowMs: 10_000,
    leaseMs: 60_000,
    ranMs: 0,
    leftMs: 0,
  });
  assert.ok(extended.ok && extended.value.place.in === "leased");
  assert.deepEqual([extended.value.place.untilMs, extended.value.place.leaseMs], [14_000, 4000]);
  const late = extendLease(asked(), by, { nowMs: 15_000, leaseMs: 60_000, ranMs: 0, leftMs: 0 });
  assert.ok(late.ok);
  assert.deepEqual(violations(late.value), []);
});

test("whatever brings a cancelled task back ends it", () => {
  const returned = [
    nack(asked(), by, { delaySeconds: 5, reason: "stopped" }, back),
    abandon(asked(), by, { interrupted: true }, back),
    abandon(asked(), by, { interrupted: false }, back),
    expireLease(asked(), { ...back, ranMs: 0 }),
  ];
  for (const outcome of returned) {
    assert.ok(outcome.ok);
    assertCancelled(outcome.value.task, 10_000);
    assert.deepEqual([outcome.value.buried, outcome.value.delaySeconds], [true, 0]);
  }
  const released = release(asked(), by, back);
  assert.ok(released.ok);
  assertCancelled(released.value, 10_000);
});

test("a result that comes in time counts", () => {
  const submission = {
    how: "completed",
    error: "",
    result: { json: "{}", artifacts: [] },
    resultBytes: 2,
  } as const;
  const done = complete(asked(), by, submission, { nowMs: 10_000, retention, keepsResult: true });
  assert.ok(done.ok && done.value.place.in === "done");
  assert.equal(done.value.place.how, "completed");
  assert.equal(done.value.cancelMs, 0);
});

test("what has ended cannot be cancelled, and what is cancelled cannot be claimed", () => {
  for (const where of ["dead", "done"] as const) {
    assert.deepEqual(cancel(taskIn(where), at), { ok: false, code: "has_ended" });
  }
  const ended = cancel(taskIn("ready"), at);
  assert.ok(ended.ok);
  assert.equal(claim(ended.value, { workerId: worker, leaseMs: 1 }, 1).ok, false);
});
