import assert from "node:assert/strict";
import { test } from "node:test";
import type { TaskId } from "@codeq/queue";
import { decodeIdempotency, encodeIdempotency } from "./idempotency-record.ts";

test("an idempotency entry comes back, and damage is noticed", () => {
  const taskId = "018bcfe5-6800-7000-8bb7-15228d999bdd" as TaskId;
  const entry = { taskId, queue: "work", payloadHash: "h" };
  const text = encodeIdempotency(entry);
  assert.deepEqual(decodeIdempotency(text), entry);
  for (const wrong of ["", "[]", '["a"]', '["a","b"]', '["a","b",1]', "{}", text.slice(1)]) {
    assert.equal(decodeIdempotency(wrong), undefined);
  }
});
