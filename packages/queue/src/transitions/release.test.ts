import assert from "node:assert/strict";
import { test } from "node:test";
import {
  leasedTask,
  nobody,
  oneAttempt,
  otherWorker,
  placeNames,
  retention,
  taskIn,
  worker,
} from "../../test/build-task.ts";
import { violations } from "../../test/invariants.ts";
import { release } from "./give-back.ts";

const at = { nowMs: 10_000, seq: 50, retention };

test("a task that was never handed over is ready again and nothing is counted", () => {
  const task = leasedTask({ attempts: 4, handBacks: 3, leaseToken: 8 });
  const outcome = release(task, { workerId: worker, leaseToken: 8 }, at);
  assert.ok(outcome.ok);
  assert.deepEqual(outcome.value, {
    ...task,
    updatedMs: 10_000,
    place: { in: "ready", seq: 50 },
    trail: oneAttempt({ outcome: "unsent", leaseToken: 8 }),
  });
  assert.deepEqual(violations(outcome.value), []);
});

test("only the owner of the lease can be relieved of it", () => {
  const task = leasedTask({ leaseToken: 8 });
  for (const owner of [
    { workerId: otherWorker },
    { workerId: nobody },
    { workerId: worker, leaseToken: 7 },
  ]) {
    assert.deepEqual(release(task, owner, at), { ok: false, code: "not_owner" });
  }
});

test("a task that is not leased has nothing to release", () => {
  for (const where of placeNames.filter((name) => name !== "leased")) {
    const outcome = release(taskIn(where), { workerId: worker }, at);
    assert.deepEqual(outcome, { ok: false, code: "not_in_progress" });
  }
});
