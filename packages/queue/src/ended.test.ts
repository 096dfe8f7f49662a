import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { placeNames, taskIn, worker } from "../test/build-task.ts";
import { emptyResult, expiresMsOf, isExpired, resultOf } from "./ended.ts";

test("a dead task leaves a failed result with its error and attempts", () => {
  const task = taskIn("dead", { error: "out of paper" });
  assert.deepEqual(resultOf(task, emptyResult), {
    taskId: task.id,
    status: "FAILED",
    resultJson: "",
    error: "out of paper",
    artifacts: [],
    attempts: 5,
    completedMs: 2000,
  });
});

test("a finished task leaves what its worker gave back, and how it ended", () => {
  const artifacts = [{ name: "page.pdf", url: "file:///page.pdf" }];
  const body = { json: '{"pages":1}', artifacts };
  for (const [how, status] of [
    ["completed", "COMPLETED"],
    ["failed", "FAILED"],
  ] as const) {
    const place = {
      in: "done",
      how,
      workerId: worker,
      startedMs: 1,
      atMs: 2000,
      expiresMs: 3000,
    } as const;
    const task = taskIn("done", { place, error: "one page skipped" });
    assert.deepEqual(resultOf(task, body), {
      taskId: task.id,
      status,
      resultJson: '{"pages":1}',
      error: "one page skipped",
      artifacts,
      attempts: 1,
      completedMs: 2000,
    });
  }
});

test("a task that has not ended has no result", () => {
  for (const where of ["ready", "delayed", "leased"] as const) {
    assert.equal(resultOf(taskIn(where), emptyResult), undefined);
  }
});

test("a task that has not ended never expires, at any time", () => {
  fc.assert(
    fc.property(
      fc.constantFrom("ready" as const, "delayed" as const, "leased" as const),
      fc.oneof(fc.maxSafeInteger(), fc.constant(Infinity)),
      (where, nowMs) => {
        assert.equal(expiresMsOf(taskIn(where)), undefined);
        assert.equal(isExpired(taskIn(where), nowMs), false);
      },
    ),
  );
});

test("a finished task expires at its time and not a millisecond before", () => {
  const task = taskIn("done");
  assert.equal(expiresMsOf(task), 86_402_000);
  assert.equal(isExpired(task, 86_401_999), false);
  assert.equal(isExpired(task, 86_402_000), true);
  assert.equal(isExpired(task, 86_402_001), true);
});

test("a dead task expires at its time and not a millisecond before", () => {
  const task = taskIn("dead");
  assert.equal(expiresMsOf(task), 604_802_000);
  assert.equal(isExpired(task, 604_801_999), false);
  assert.equal(isExpired(task, 604_802_000), true);
});

test("a dead task without an expiry is kept for ever", () => {
  const task = taskIn("dead", { place: { in: "dead", atMs: 2000, expiresMs: undefined } });
  assert.equal(expiresMsOf(task), undefined);
  assert.equal(isExpired(task, Number.MAX_SAFE_INTEGER), false);
});

test("expiry has an answer for every place", () => {
  assert.deepEqual(
    placeNames.filter((where) => isExpired(taskIn(where), Number.MAX_SAFE_INTEGER)),
    ["dead", "done"],
  );
});
