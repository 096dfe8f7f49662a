import assert from "node:assert/strict";
import { test } from "node:test";
import type { TaskId } from "@codeq/queue";
import { decodeIdempotency, encodeIdempotency } from "./idempotency-record.ts";

test("an idempotency entry comes back, and damage is noticed", () => {
  const taskId = "018bcfe5-6800-7000-8bb7-15228d999bdd" as TaskId;
  const entry = { taskId, queue: "work", payloadHash: "h", gone: undefined };
  const text = encodeIdempotency(entry);
  assert.deepEqual(decodeIdempotency(text), entry);
  const gone = { how: "dead", createdMs: 1, endedMs: 2, untilMs: 3 } as const;
  const kept = encodeIdempotency({ ...entry, gone });
  assert.deepEqual(decodeIdempotency(kept), { ...entry, gone });
  for (const wrong of [kept.replace("dead", "lost"), kept.replace("2", '"2"')]) {
    assert.equal(decodeIdempotency(wrong), undefined);
  }
  for (const wrong of ["", "[]", '["a"]', '["a","b"]', '["a","b",1]', "{}", text.slice(1)]) {
    assert.equal(decodeIdempotency(wrong), undefined);
  }
});
