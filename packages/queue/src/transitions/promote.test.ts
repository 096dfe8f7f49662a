import assert from "node:assert/strict";
import { test } from "node:test";
import { taskIn } from "../../test/build-task.ts";
import { promote } from "./claim.ts";

test("a delayed task becomes ready at the back of its queue and is otherwise the same", () => {
  const task = taskIn("delayed", { error: "older", handBacks: 1, leaseToken: 5 });
  assert.deepEqual(promote(task, { nowMs: 9000, seq: 50 }), {
    ok: true,
    value: { ...task, updatedMs: 9000, place: { in: "ready", seq: 50 } },
  });
});

test("a task that is not delayed cannot be promoted", () => {
  for (const where of ["ready", "leased", "dead", "done"] as const) {
    const refused = promote(taskIn(where), { nowMs: 9000, seq: 50 });
    assert.deepEqual(refused, { ok: false, code: "not_delayed" });
  }
});
