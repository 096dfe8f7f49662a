import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { id, newTask } from "../../test/build-task.ts";
import { violations } from "../../test/invariants.ts";
import { enqueue } from "./enqueue.ts";

const at = { id, nowMs: 1000, seq: 12, keepsPayload: true };

test("a new task is ready with its position and nothing behind it", () => {
  const { visibleMs: _, payloadBytes, payloadHash: __, keepsFirst: ___, ...fields } = newTask();
  assert.deepEqual(enqueue(newTask(), at), {
    id,
    ...fields,
    lane: undefined,
    attempts: 0,
    handBacks: 0,
    replays: 0,
    cancelMs: 0,
    leaseToken: 0,
    error: "",
    createdMs: 1000,
    updatedMs: 1000,
    storedBytes: payloadBytes,
    place: { in: "ready", seq: 12 },
    result: undefined,
    repairs: undefined,
    trail: undefined,
    schedule: undefined,
    unique: undefined,
    batch: undefined,
  });
});

test("a payload that is kept apart does not travel with the task, and counts all the same", () => {
  const task = enqueue(newTask(), { ...at, keepsPayload: false });
  assert.equal(task.payload, undefined);
  assert.equal(task.storedBytes, 20);
});

test("a task for later waits until exactly then", () => {
  const task = enqueue(newTask({ visibleMs: 1001 }), at);
  assert.deepEqual(task.place, { in: "delayed", dueMs: 1001 });
});

test("a task for now or for the past is ready", () => {
  for (const visibleMs of [1000, 999, 0, -5000]) {
    assert.deepEqual(enqueue(newTask({ visibleMs }), at).place, { in: "ready", seq: 12 });
  }
});

test("a priority out of range is brought into it", () => {
  assert.equal(enqueue(newTask({ priority: 42 }), at).priority, 9);
  assert.equal(enqueue(newTask({ priority: -1 }), at).priority, 0);
});

test("the command keeps the case the producer gave it", () => {
  assert.equal(enqueue(newTask({ command: "Send-MAIL" }), at).command, "Send-MAIL");
});

test("every new task is sound, and delayed exactly when its time lies ahead", () => {
  const anyMs = fc.integer({ min: 0, max: 4_000_000_000_000 });
  fc.assert(
    fc.property(
      fc.option(anyMs, { nil: undefined }),
      anyMs,
      fc.nat(),
      fc.integer(),
      fc.integer({ min: 1, max: 1000 }),
      (visibleMs, nowMs, seq, priority, maxAttempts) => {
        const task = enqueue(newTask({ visibleMs, priority, maxAttempts }), { ...at, nowMs, seq });
        assert.deepEqual(violations(task), []);
        const isLater = visibleMs !== undefined && visibleMs - nowMs >= 1;
        assert.equal(task.place.in, isLater ? "delayed" : "ready");
      },
    ),
  );
});
