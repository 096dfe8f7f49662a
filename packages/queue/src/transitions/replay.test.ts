import assert from "node:assert/strict";
import { test } from "node:test";
import { taskIn } from "../../test/build-task.ts";
import { violations } from "../../test/invariants.ts";
import { replay } from "./replay.ts";

const at = { nowMs: 9000, seq: 50, resultBytes: 0 };

test("a replayed dead letter is ready with all its attempts, and its result is gone", () => {
  const task = taskIn("dead", { replays: 2, error: "no such host" });
  const outcome = replay(task, at);
  assert.deepEqual(outcome, {
    ok: true,
    value: {
      ...task,
      attempts: 0,
      replays: 3,
      updatedMs: 9000,
      place: { in: "ready", seq: 50 },
      result: undefined,
    },
  });
  if (outcome.ok) assert.deepEqual(violations(outcome.value), []);
});

test("a replayed failed task loses the bytes of its result", () => {
  const done = taskIn("done", { storedBytes: 30 });
  assert.ok(done.place.in === "done");
  const failed = { ...done, place: { ...done.place, how: "failed" as const } };
  const outcome = replay(failed, { ...at, resultBytes: 12 });
  assert.ok(outcome.ok);
  assert.equal(outcome.value.storedBytes, 18);
  assert.deepEqual(outcome.value.place, { in: "ready", seq: 50 });
  const cancelled = { ...done, place: { ...done.place, how: "cancelled" as const } };
  assert.deepEqual(replay(cancelled, at), { ok: false, code: "not_failed" });
});

test("a task that has not failed cannot be replayed", () => {
  for (const where of ["ready", "delayed", "leased", "done"] as const) {
    assert.deepEqual(replay(taskIn(where), at), { ok: false, code: "not_failed" });
  }
});
