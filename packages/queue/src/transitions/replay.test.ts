import assert from "node:assert/strict";
import { test } from "node:test";
import { taskIn } from "../../test/build-task.ts";
import { violations } from "../../test/invariants.ts";
import { replay } from "./replay.ts";

const at = { nowMs: 9000, seq: 50 };

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

test("a task that is not dead cannot be replayed", () => {
  for (const where of ["ready", "delayed", "leased", "done"] as const) {
    assert.deepEqual(replay(taskIn(where), at), { ok: false, code: "not_dead" });
  }
});
