import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { otherWorker, taskIn, worker } from "../../test/build-task.ts";
import { noExtras } from "../task.ts";
import { claim } from "./claim.ts";

const by = { workerId: otherWorker, leaseMs: 30_000 };

test("a ready task goes to the worker until the end of the lease", () => {
  const task = taskIn("ready");
  assert.deepEqual(claim(task, by, 5000), {
    ok: true,
    value: {
      ...task,
      leaseToken: 3,
      updatedMs: 5000,
      place: {
        in: "leased",
        workerId: otherWorker,
        untilMs: 35_000,
        leaseMs: 30_000,
        sinceMs: 5000,
      },
    },
  });
});

test("a claim counts no attempt and keeps the hand-backs in a row", () => {
  fc.assert(
    fc.property(fc.nat(4), fc.nat(3), fc.nat(100), (attempts, handBacks, leaseToken) => {
      const claimed = claim(taskIn("ready", { attempts, handBacks, leaseToken }), by, 5000);
      assert.ok(claimed.ok);
      assert.equal(claimed.value.attempts, attempts);
      assert.equal(claimed.value.handBacks, handBacks);
      assert.equal(claimed.value.leaseToken, leaseToken + 1);
    }),
  );
});

test("the first claim of a task gets token 1", () => {
  const claimed = claim(taskIn("ready", { attempts: 0, leaseToken: 0 }), by, 5000);
  assert.equal(claimed.ok && claimed.value.leaseToken, 1);
});

test("a claim keeps the error of the attempt before", () => {
  const claimed = claim(taskIn("ready", { error: "jam" }), by, 5000);
  assert.equal(claimed.ok && claimed.value.error, "jam");
});

test("a task that is not ready cannot be claimed, not even by the worker that has it", () => {
  for (const where of ["delayed", "leased", "dead", "done"] as const) {
    for (const workerId of [worker, otherWorker]) {
      const refused = claim(taskIn(where), { workerId, leaseMs: 1000 }, 5000);
      assert.deepEqual(refused, { ok: false, code: "not_ready" });
    }
  }
});

test("a delayed task cannot be claimed even when its time has passed", () => {
  const refused = claim(taskIn("delayed"), by, Number.MAX_SAFE_INTEGER);
  assert.deepEqual(refused, { ok: false, code: "not_ready" });
});

test("a lease that has run out cannot be claimed before it is taken back", () => {
  const refused = claim(taskIn("leased"), by, Number.MAX_SAFE_INTEGER);
  assert.deepEqual(refused, { ok: false, code: "not_ready" });
});

test("a lease is no longer than the timeout of the task", () => {
  const extras = { ...noExtras, timeoutMs: 10_000 };
  const claimed = claim(taskIn("ready", { extras }), by, 5000);
  assert.ok(claimed.ok && claimed.value.place.in === "leased");
  assert.deepEqual([claimed.value.place.untilMs, claimed.value.place.leaseMs], [15_000, 10_000]);
  const short = claim(taskIn("ready", { extras }), { ...by, leaseMs: 1000 }, 5000);
  assert.ok(short.ok && short.value.place.in === "leased");
  assert.equal(short.value.place.untilMs, 6000);
});

test("a task is not begun once the time to begin it has passed", () => {
  const task = taskIn("ready", { extras: { ...noExtras, ttlMs: 1000, startByMs: 5000 } });
  assert.equal(claim(task, by, 4999).ok, true);
  assert.deepEqual(claim(task, by, 5000), { ok: false, code: "has_lapsed" });
});
