import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { leasedTask, oneAttempt, retention, taskIn } from "../../test/build-task.ts";
import { violations } from "../../test/invariants.ts";
import { type Comeback, retryOrBury } from "./give-back.ts";

function setup(over: Partial<Comeback> = {}): Comeback {
  return {
    nowMs: 10_000,
    seq: 50,
    delaySeconds: 0,
    error: "buried because",
    lastError: "",
    outcome: "nacked",
    retention,
    ...over,
  };
}

test("an attempt that came back with a delay waits for it", () => {
  const task = leasedTask();
  assert.deepEqual(retryOrBury(task, setup({ delaySeconds: 7 })), {
    task: {
      ...task,
      attempts: 2,
      updatedMs: 10_000,
      place: { in: "delayed", dueMs: 17_000 },
      trail: oneAttempt({ delayMs: 7000 }),
    },
    buried: false,
    delaySeconds: 7,
  });
});

test("an attempt that came back without a delay is ready at the back", () => {
  const task = leasedTask();
  assert.deepEqual(retryOrBury(task, setup()), {
    task: {
      ...task,
      attempts: 2,
      updatedMs: 10_000,
      place: { in: "ready", seq: 50 },
      trail: oneAttempt({}),
    },
    buried: false,
    delaySeconds: 0,
  });
});

test("the last allowed attempt buries the task whatever the delay", () => {
  const task = leasedTask({ attempts: 4, leaseToken: 5, error: "older" });
  assert.deepEqual(retryOrBury(task, setup({ delaySeconds: 7, lastError: "newer" })), {
    task: {
      ...task,
      attempts: 5,
      error: "buried because",
      updatedMs: 10_000,
      place: { in: "dead", atMs: 10_000, expiresMs: 604_810_000 },
      result: { json: "", artifacts: [] },
      trail: oneAttempt({ leaseToken: 5, error: "newer" }),
    },
    buried: true,
    delaySeconds: 0,
  });
});

test("a dead retention of zero keeps the task for ever", () => {
  const task = leasedTask({ attempts: 4, leaseToken: 5 });
  const { task: dead } = retryOrBury(task, setup({ retention: { doneMs: 1, deadMs: 0 } }));
  assert.deepEqual(dead.place, { in: "dead", atMs: 10_000, expiresMs: undefined });
});

test("a task that may be delivered once is buried by its first return", () => {
  const task = leasedTask({ maxAttempts: 1, attempts: 0, leaseToken: 1 });
  assert.equal(retryOrBury(task, setup()).buried, true);
});

test("a retry remembers what was told last, and keeps the older error when told nothing", () => {
  const task = leasedTask({ error: "older" });
  assert.equal(retryOrBury(task, setup({ lastError: "newer" })).task.error, "newer");
  assert.equal(retryOrBury(task, setup({ lastError: "" })).task.error, "older");
});

test("a counted return ends the row of free hand-backs", () => {
  for (const attempts of [0, 4]) {
    const task = leasedTask({ attempts, handBacks: 3, leaseToken: 9 });
    assert.equal(retryOrBury(task, setup()).task.handBacks, 0);
  }
});

test("a task that is not leased cannot come back", () => {
  for (const where of ["ready", "delayed", "dead", "done"] as const) {
    assert.throws(() => retryOrBury(taskIn(where), setup()), /cannot come back/);
  }
});

test("one attempt is counted, and the task is buried exactly when none is left", () => {
  const counts = fc
    .integer({ min: 1, max: 1000 })
    .chain((maxAttempts) => fc.tuple(fc.constant(maxAttempts), fc.nat(maxAttempts - 1)));
  fc.assert(
    fc.property(
      counts,
      fc.nat(3),
      fc.nat(900),
      ([maxAttempts, attempts], handBacks, delaySeconds) => {
        const leaseToken = attempts + handBacks + 1;
        const task = leasedTask({ maxAttempts, attempts, handBacks, leaseToken });
        const returned = retryOrBury(task, setup({ delaySeconds }));
        assert.equal(returned.task.attempts - attempts, 1);
        assert.equal(returned.buried, maxAttempts - attempts === 1);
        assert.equal(returned.task.place.in === "dead", returned.buried);
        assert.equal(returned.task.place.in === "delayed", !returned.buried && delaySeconds !== 0);
        assert.deepEqual(violations(returned.task), []);
      },
    ),
  );
});
