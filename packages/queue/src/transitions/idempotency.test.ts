import assert from "node:assert/strict";
import { test } from "node:test";
import { newTask, taskIn } from "../../test/build-task.ts";
import { queueOf, type TaskId } from "../task.ts";
import {
  goneTask,
  type IdempotencyEntry,
  keyUntilMs,
  matchIdempotency,
  withoutItsRecord,
} from "./idempotency.ts";

function setup(): IdempotencyEntry {
  return { taskId: "task-1" as TaskId, queue: "render", payloadHash: "abc", gone: undefined };
}

test("the same request again gets the task of the first one", () => {
  const match = matchIdempotency(setup(), {
    queue: "render",
    payloadHash: "abc",
    keepsFirst: false,
  });
  assert.deepEqual(match, { ok: true, value: "task-1" });
});

test("the case of the command does not make a different request", () => {
  const match = matchIdempotency(setup(), {
    queue: queueOf("RENDER"),
    payloadHash: "abc",
    keepsFirst: false,
  });
  assert.deepEqual(match, { ok: true, value: "task-1" });
});

test("another queue under the same key is refused", () => {
  const match = matchIdempotency(setup(), {
    queue: "resize",
    payloadHash: "abc",
    keepsFirst: false,
  });
  assert.deepEqual(match, { ok: false, code: "idempotency_key_reused" });
});

test("another payload under the same key is refused", () => {
  const match = matchIdempotency(setup(), {
    queue: "render",
    payloadHash: "abd",
    keepsFirst: false,
  });
  assert.deepEqual(match, { ok: false, code: "idempotency_key_reused" });
});

test("another queue and payload under the same key are refused", () => {
  const match = matchIdempotency(setup(), {
    queue: "resize",
    payloadHash: "abd",
    keepsFirst: false,
  });
  assert.deepEqual(match, { ok: false, code: "idempotency_key_reused" });
});

test("another request under the same key gets the first task if it says so", () => {
  const request = { queue: "resize", payloadHash: "abd", keepsFirst: true };
  assert.deepEqual(matchIdempotency(setup(), request), { ok: true, value: "task-1" });
});

test("a key is kept from the creation of its task, and never shorter than the task", () => {
  const task = { createdMs: 1000 };
  assert.equal(keyUntilMs(task, { nowMs: 5999, lifeMs: 5000 }), 6000);
  assert.equal(keyUntilMs(task, { nowMs: 6000, lifeMs: 5000 }), undefined);
  assert.equal(keyUntilMs(task, { nowMs: 1000, lifeMs: 0 }), undefined);
});

test("what is kept of a deleted task answers the same request with a task that has ended", () => {
  assert.equal(goneTask(taskIn("leased"), 9), undefined);
  for (const where of ["dead", "done"] as const) {
    const gone = goneTask(taskIn(where), 90_000);
    assert.ok(gone !== undefined);
    const task = withoutItsRecord({ ...setup(), gone }, gone, newTask({ command: "Render" }));
    assert.deepEqual([task.id, task.command, task.place.in], ["task-1", "Render", where]);
  }
});
