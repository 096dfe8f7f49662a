import assert from "node:assert/strict";
import { test } from "node:test";
import { queueOf, type TaskId } from "../task.ts";
import { type IdempotencyEntry, matchIdempotency } from "./enqueue.ts";

function setup(): IdempotencyEntry {
  return { taskId: "task-1" as TaskId, queue: "render", payloadHash: "abc" };
}

test("the same request again gets the task of the first one", () => {
  const match = matchIdempotency(setup(), { queue: "render", payloadHash: "abc" });
  assert.deepEqual(match, { ok: true, value: "task-1" });
});

test("the case of the command does not make a different request", () => {
  const match = matchIdempotency(setup(), { queue: queueOf("RENDER"), payloadHash: "abc" });
  assert.deepEqual(match, { ok: true, value: "task-1" });
});

test("another queue under the same key is refused", () => {
  const match = matchIdempotency(setup(), { queue: "resize", payloadHash: "abc" });
  assert.deepEqual(match, { ok: false, code: "idempotency_key_reused" });
});

test("another payload under the same key is refused", () => {
  const match = matchIdempotency(setup(), { queue: "render", payloadHash: "abd" });
  assert.deepEqual(match, { ok: false, code: "idempotency_key_reused" });
});

test("another queue and payload under the same key are refused", () => {
  const match = matchIdempotency(setup(), { queue: "resize", payloadHash: "abd" });
  assert.deepEqual(match, { ok: false, code: "idempotency_key_reused" });
});
