import assert from "node:assert/strict";
import { test } from "node:test";
import { leasedTask, oneAttempt, policy, retention, taskIn } from "../../test/build-task.ts";
import { noExtras, type Task } from "../task.ts";
import type { Returned } from "./give-back.ts";
import { expireLease } from "./give-back.ts";

const at = { nowMs: 40_000, seq: 50, draw: 0.5, policy, retention, ranMs: 38_000 };

function expired(task: Task, over: Partial<typeof at> = {}): Returned {
  const outcome = expireLease(task, { ...at, ...over });
  assert.ok(outcome.ok);
  return outcome.value;
}

test("a task taken back from a silent worker waits by the policy and counts", () => {
  const task = leasedTask({ error: "older" });
  assert.deepEqual(expired(task), {
    task: {
      ...task,
      attempts: 2,
      updatedMs: 40_000,
      place: { in: "delayed", dueMs: 60_000 },
      trail: oneAttempt({ outcome: "expired", endedMs: 40_000, delayMs: 20_000 }),
    },
    buried: false,
    delaySeconds: 20,
  });
});

test("the delay grows with every lease that runs out", () => {
  const delays = [0, 1, 2, 3].map(
    (attempts) => expired(leasedTask({ attempts, leaseToken: attempts + 1 })).delaySeconds,
  );
  assert.deepEqual(delays, [10, 20, 40, 80]);
});

test("the draw moves a jittered delay, down to ready at once", () => {
  const jittered = { ...policy, backoff: "exp_full_jitter" as const };
  assert.equal(expired(leasedTask(), { policy: jittered, draw: 0.999 }).delaySeconds, 20);
  const atOnce = expired(leasedTask(), { policy: jittered, draw: 0 });
  assert.deepEqual(atOnce.task.place, { in: "ready", seq: 50 });
});

test("the last lease that runs out buries the task and says why", () => {
  const returned = expired(leasedTask({ attempts: 4, leaseToken: 5, error: "older" }));
  assert.equal(returned.buried, true);
  assert.equal(returned.delaySeconds, 0);
  assert.equal(returned.task.attempts, 5);
  assert.equal(returned.task.error, "LEASE_EXPIRED");
  assert.deepEqual(returned.task.place, { in: "dead", atMs: 40_000, expiresMs: 604_840_000 });
});

test("a lease that runs out ends the row of free hand-backs", () => {
  assert.equal(expired(leasedTask({ handBacks: 3, leaseToken: 5 })).task.handBacks, 0);
});

test("the caller's word counts, not the wall clock", () => {
  assert.equal(expired(leasedTask(), { nowMs: 2000 }).task.attempts, 2);
});

test("a task that is not leased has no lease to run out", () => {
  for (const where of ["ready", "delayed", "dead", "done"] as const) {
    assert.deepEqual(expireLease(taskIn(where), at), { ok: false, code: "not_in_progress" });
  }
});

test("an attempt that took longer than the timeout of its task says so, and counts", () => {
  const task = leasedTask({ extras: { ...noExtras, timeoutMs: 38_000 }, error: "older" });
  const { task: retried } = expired(task);
  assert.deepEqual([retried.error, retried.attempts], ["TIMEOUT", 2]);
  assert.equal(retried.trail?.attempts[0]?.outcome, "timed_out");
  assert.equal(expired({ ...task, attempts: 4, leaseToken: 5 }).task.error, "TIMEOUT");
  const early = expired(task, { ranMs: 37_999 }).task;
  assert.deepEqual([early.error, early.trail?.attempts[0]?.outcome], ["older", "expired"]);
});
